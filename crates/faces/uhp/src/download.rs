//! Files on their way out. User bytes never run in a browser: `nosniff`, a sandboxing policy, and an attachment unless the
//! file is inert text (UHP §10).

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio_util::io::ReaderStream;

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

/// The answer that carries a file under its own name.
pub(crate) fn file(file: File, bytes: u64, path: &str, display: Display) -> Response {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or("file");
    let media_type = media_type(name);
    let kind = if display == Display::InertInline && is_inert(&media_type) { "inline" } else { "attachment" };
    body(
        ReaderStream::with_capacity(tokio::fs::File::from_std(file), BUFFER),
        bytes,
        &media_type,
        &disposition(kind, name),
    )
}

/// The answer that carries an archive made for this request.
pub(crate) fn archive(file: File, bytes: u64, name: &str) -> Response {
    let stream = ReaderStream::with_capacity(tokio::fs::File::from_std(file), BUFFER);
    body(stream, bytes, "application/zip", &disposition("attachment", name))
}

fn body(stream: ReaderStream<tokio::fs::File>, bytes: u64, media_type: &str, disposition: &str) -> Response {
    let mut response = Response::new(Body::from_stream(stream));
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

    #[test]
    fn only_inert_text_is_shown_in_place() {
        let kind = |name: &str| {
            let response = file(tempfile::tempfile().unwrap(), 0, name, Display::InertInline);
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
