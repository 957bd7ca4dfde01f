//! The head of an origin server's response, rewritten for the client.

use crate::framing::Framing;
use crate::headers::{Fields, Length};

/// Fields a response head may have, and its size in bytes.
const MAX_FIELDS: usize = 128;
pub(crate) const MAX_HEAD: usize = 64 * 1024;

/// A response head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    /// 100 to 199: another head follows.
    pub(crate) is_interim: bool,
    /// The head to send, without `Connection` and without the empty line.
    pub(crate) head: Vec<u8>,
    pub(crate) body: Framing,
}

/// The response cannot be understood, or can be understood in two ways.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadResponse;

/// Parses a head. `Ok(None)` when more bytes are needed; otherwise the response and the length of its head.
pub(crate) fn parse(bytes: &[u8], to_head: bool) -> Result<Option<(Response, usize)>, BadResponse> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Response::new(&mut fields);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(BadResponse),
    };
    // 101 cannot answer a request whose `Upgrade` was taken out.
    let Some(code) = parsed.code.filter(|code| (100..1000).contains(code) && *code != 101) else {
        return Err(BadResponse);
    };
    let fields = Fields(parsed.headers);
    let is_interim = code < 200;
    let said = fields.length().map_err(|_| BadResponse)?;
    let body = match said {
        _ if is_interim || to_head || code == 204 || code == 304 => Framing::NONE,
        Length::Unsaid => Framing::UntilClose,
        Length::Bytes(count) => Framing::Length(count),
        Length::Chunked => Framing::chunked_response(),
    };
    let mut head = format!("HTTP/1.1 {code} {}\r\n", parsed.reason.unwrap_or_default()).into_bytes();
    fields.write_end_to_end(&mut head, &[]);
    if matches!(body, Framing::Chunked(_)) {
        head.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    Ok(Some((Response { is_interim, head, body }, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, to_head: bool) -> Response {
        parse(text.as_bytes(), to_head).unwrap().unwrap().0
    }

    #[test]
    fn the_body_ends_where_the_head_says() {
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nKeep-Alive: 5\r\nConnection: keep-alive\r\nX: y\r\n\r\n";
        let response = parsed(chunked, false);
        assert_eq!(response.head, b"HTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: chunked\r\n");
        assert_eq!(response.body, Framing::chunked_response());
        assert_eq!(parsed("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", false).body, Framing::Length(7));
        assert_eq!(parsed("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", true).body, Framing::NONE);
        assert_eq!(parsed("HTTP/1.1 304 X\r\nContent-Length: 7\r\n\r\n", false).body, Framing::NONE);
        assert_eq!(parsed("HTTP/1.0 200 OK\r\n\r\n", false).body, Framing::UntilClose);
        assert!(parsed("HTTP/1.1 100 Continue\r\n\r\n", false).is_interim);
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 042 Odd\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n",
        ] {
            assert_eq!(parse(text.as_bytes(), false), Err(BadResponse), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>, to_head: bool) {
            let _ = parse(&bytes, to_head);
            let _ = parse(&[b"HTTP/1.1 200 OK\r\n".as_slice(), &bytes, b"\r\n\r\n"].concat(), to_head);
        }
    }
}
