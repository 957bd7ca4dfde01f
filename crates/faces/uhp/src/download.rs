//! Files on their way out. User bytes never run in a browser: `nosniff`, a sandboxing policy, and an attachment unless the
//! file is inert text (UHP §10).

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::Path;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use stead_domain::key::Caller;
use stead_domain::ports::BlobFile;
use stead_domain::{BlobId, Error, Timestamp};
use stead_engine::Engine;
use stead_face_frame::{Operation, Parameter};
use tokio_util::io::ReaderStream;

use crate::conditions::{self, Reading};
use crate::errors::Failure;

/// What RFC 8187 lets stand unescaped.
const ATTR_CHAR: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Bytes read from disk at a time.
const BUFFER: usize = 64 << 10;

/// Whether a browser may show the file in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Display {
    /// Never: it is always saved.
    Attachment,
    /// When it is text that does nothing.
    InertInline,
}

/// The media type that a name suggests; text is UTF-8.
pub(crate) fn media_type(name: &str) -> String {
    let guess = mime_guess::from_path(name).first_or_octet_stream();
    if guess.type_() == "text" { format!("{guess}; charset=utf-8") } else { guess.to_string() }
}

/// Text that no browser runs, loads from or renders as markup.
fn is_inert(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default();
    ["text/plain", "text/csv", "text/markdown", "text/x-python", "text/x-yaml", "application/json"].contains(&essence)
}

/// `Content-Disposition` with the name in ASCII and, when that loses something, in full (RFC 6266, RFC 8187).
fn disposition(kind: &str, name: &str) -> String {
    let plain = |character: char| {
        if (character.is_ascii_graphic() || character == ' ') && !"\"\\%".contains(character) { character } else { '_' }
    };
    let ascii: String = name.chars().map(plain).collect();
    let mut value = format!("{kind}; filename=\"{ascii}\"");
    if ascii != name {
        // Writing to a string cannot fail.
        let _ = write!(value, "; filename*=UTF-8''{}", utf8_percent_encode(name, ATTR_CHAR));
    }
    value
}

/// A file that is kept, as it is offered for download.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored<'a> {
    /// Its path, whose last segment names it.
    pub path: &'a str,
    /// The address of its bytes.
    pub blob: BlobId,
    /// Their number.
    pub bytes: u64,
    /// When they were written.
    pub modified_at: Timestamp,
    /// How a browser may show it.
    pub display: Display,
}

impl Stored<'_> {
    /// The answer to a request for it: all of it, a part, or that the caller has it (RFC 9110 §13 and §14). It is opened only
    /// when bytes of it are sent.
    pub(crate) async fn answer(
        &self,
        engine: &Engine,
        caller: &Caller,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Response, Failure> {
        let reading = conditions::of_read(method, headers, (self.blob, self.bytes, self.modified_at))?;
        let part = match &reading {
            Reading::Beyond => return Err(Failure::range_beyond(self.bytes)),
            Reading::Part(part) => part.clone(),
            Reading::Whole | Reading::Unchanged => 0..self.bytes,
        };
        let silent = reading == Reading::Unchanged || *method == Method::HEAD || self.bytes == 0;
        let body = if silent {
            if *method == Method::HEAD && reading != Reading::Unchanged {
                // What cannot be read is refused alike, with and without a body.
                engine.blob_open(caller, self.blob).await?;
            }
            Body::empty()
        } else {
            blob_body(engine.blob_open(caller, self.blob).await?.range(part.clone()))
        };
        let mut response = self.named(body, part.end - part.start);
        let answered = response.headers_mut();
        answered.insert(header::ETAG, conditions::tag(self.blob)?);
        answered.insert(header::LAST_MODIFIED, conditions::date(self.modified_at)?);
        answered.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        match reading {
            Reading::Part(part) => {
                let range = format!("bytes {}-{}/{}", part.start, part.end - 1, self.bytes);
                answered.insert(header::CONTENT_RANGE, HeaderValue::from_str(&range).map_err(Error::internal)?);
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            }
            Reading::Unchanged => {
                // Its length would be the file's. An empty body of known size would be given that size, so this one has none.
                answered.remove(header::CONTENT_LENGTH);
                *response.body_mut() = Body::from_stream(stream::empty::<io::Result<Bytes>>());
                *response.status_mut() = StatusCode::NOT_MODIFIED;
            }
            Reading::Whole | Reading::Beyond => {}
        }
        Ok(response)
    }

    fn named(&self, body: Body, bytes: u64) -> Response {
        let name = Path::new(self.path).file_name().and_then(|name| name.to_str()).unwrap_or("file");
        let media_type = media_type(name);
        let kind = if self.display == Display::InertInline && is_inert(&media_type) { "inline" } else { "attachment" };
        answer(body, bytes, &media_type, &disposition(kind, name))
    }
}

/// A blob, or a range of one, as it is read.
pub(crate) fn blob_body(blob: BlobFile) -> Body {
    if let Some(bytes) = blob.in_memory() {
        return Body::from(Bytes::copy_from_slice(bytes));
    }
    Body::from_stream(stream::try_unfold((blob, 0), |(blob, offset)| async move {
        if offset == blob.length() {
            return Ok::<_, io::Error>(None);
        }
        let reading = tokio::task::spawn_blocking(move || {
            let mut buffer = vec![0; BUFFER];
            let count = blob.read_at(&mut buffer, offset)?;
            buffer.truncate(count);
            Ok::<_, io::Error>((buffer, blob))
        });
        let (buffer, blob) = reading.await.map_err(io::Error::other)??;
        if buffer.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a blob ended before its length"));
        }
        let offset = offset + buffer.len() as u64;
        Ok(Some((Bytes::from(buffer), (blob, offset))))
    }))
}

/// The answer that carries an archive made for this request.
/// What there is to say about a download, beside what the route says itself.
pub(crate) fn described(operation: Operation) -> Operation {
    operation
        .with(Parameter::header("Range", "a part of the bytes"))
        .answers_bytes("*/*")
        .answers_also(206, "A part of the bytes.")
        .answers_also(304, "The caller has the bytes.")
        .refuses(&[412, 416])
}

pub(crate) fn archive(file: File, bytes: u64, name: &str) -> Response {
    let stream = ReaderStream::with_capacity(tokio::fs::File::from_std(file), BUFFER);
    answer(Body::from_stream(stream), bytes, "application/zip", &disposition("attachment", name))
}

fn answer(body: Body, bytes: u64, media_type: &str, disposition: &str) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    for (name, text) in [(header::CONTENT_TYPE, media_type), (header::CONTENT_DISPOSITION, disposition)] {
        // Both are visible ASCII by construction; a header that is none is left out rather than wrong.
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_in_full_beside_an_ascii_form() {
        assert_eq!(disposition("attachment", "a b.txt"), "attachment; filename=\"a b.txt\"");
        assert_eq!(
            disposition("attachment", "é\"%\n.txt"),
            "attachment; filename=\"____.txt\"; filename*=UTF-8''%C3%A9%22%25%0A.txt"
        );
    }

    #[tokio::test]
    async fn a_blob_streams_whole_and_in_ranges_and_a_short_one_fails() {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..3 * BUFFER).map(|index| (index % 251) as u8).collect();
        io::Write::write_all(&mut file, &content).unwrap();
        let length = content.len() as u64;
        let collect = |blob| axum::body::to_bytes(blob_body(blob), usize::MAX);
        let blob = BlobFile::from_file(file.try_clone().unwrap(), 0, length);
        assert_eq!(collect(blob.range(7..length - 9)).await.unwrap(), content[7..content.len() - 9]);
        assert_eq!(collect(BlobFile::from_bytes(content.clone()).range(9..12)).await.unwrap(), content[9..12]);
        assert_eq!(collect(blob).await.unwrap(), content);
        assert!(collect(BlobFile::from_file(file, 0, length + 1)).await.is_err());
    }

    #[test]
    fn only_inert_text_is_shown_in_place() {
        let kind = |name: &str| {
            let (blob, modified_at) = (BlobId::from_bytes([0; 32]), Timestamp::default());
            let stored = Stored { path: name, blob, bytes: 0, modified_at, display: Display::InertInline };
            let response = stored.named(Body::empty(), 0);
            let text = |name| response.headers().get(name).unwrap().to_str().unwrap().to_owned();
            assert_eq!(text(header::X_CONTENT_TYPE_OPTIONS), "nosniff");
            (text(header::CONTENT_TYPE), text(header::CONTENT_DISPOSITION).starts_with("inline"))
        };
        assert_eq!(kind("dir/a.txt"), ("text/plain; charset=utf-8".to_owned(), true));
        assert_eq!(kind("a.html"), ("text/html; charset=utf-8".to_owned(), false));
        assert_eq!(kind("a.svg"), ("image/svg+xml".to_owned(), false));
        assert!(!kind("a.js").1);
        assert_eq!(kind("noext"), ("application/octet-stream".to_owned(), false));
    }
}
