//! Uploads: the parser that we use, fed as the network feeds it, and what we make of its parts.

use axum::body::Body;
use axum::extract::{FromRequest, Multipart, Request};
use bytes::Bytes;
use futures_util::{FutureExt, stream};

use crate::input;

/// A part: its name, its file's name as we would keep it, its media type and its bytes. `None` ends what was malformed.
type Part = Option<(String, Option<String>, Option<String>, Vec<u8>)>;

/// Reads what follows the first line of `data` as a multipart body; the first line is its `Content-Type`. However the network cuts
/// it, it is the same upload.
pub fn multipart(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (media_type, body) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    let whole = read(media_type, body, body.len().max(1));
    let held: usize = whole.iter().flatten().map(|part| part.3.len()).sum();
    assert!(held <= body.len(), "more bytes than there were");
    for step in [1, 7] {
        // A body that is refused may be refused sooner or later; what is accepted is the same.
        let cut = read(media_type, body, step);
        if whole.iter().all(Option::is_some) || cut.iter().all(Option::is_some) {
            assert_eq!(cut, whole, "pieces of {step} bytes are read differently");
        }
    }
}

fn read(media_type: &[u8], body: &[u8], step: usize) -> Vec<Part> {
    let pieces: Vec<_> =
        body.chunks(step).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece))).collect();
    let request = Request::post("/v1/files").header(http::header::CONTENT_TYPE, media_type);
    let Ok(request) = request.body(Body::from_stream(stream::iter(pieces))) else { return Vec::new() };
    // Every piece is there already, so nothing has to be waited for.
    parts(request).now_or_never().unwrap_or_default()
}

async fn parts(request: Request) -> Vec<Part> {
    let Ok(mut parts) = Multipart::from_request(request, &()).await else { return vec![None] };
    let mut found = Vec::new();
    loop {
        let mut part = match parts.next_field().await {
            Ok(Some(part)) => part,
            Ok(None) => return found,
            Err(_) => break,
        };
        let name = part.name().unwrap_or_default().to_owned();
        let filename = part.file_name().and_then(|name| input::plain_name(name, "file").ok());
        if let Some(name) = &filename {
            assert!(!name.contains(['/', '\\', '\0']) && name != ".." && name != ".", "an odd name: {name:?}");
        }
        let media_type = part.content_type().map(str::to_owned);
        let mut bytes = Vec::new();
        loop {
            match part.chunk().await {
                Ok(Some(piece)) => bytes.extend_from_slice(&piece),
                Ok(None) => break,
                Err(_) => {
                    found.push(None);
                    return found;
                }
            }
        }
        found.push(Some((name, filename, media_type, bytes)));
    }
    found.push(None);
    found
}
