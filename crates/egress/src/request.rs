//! The head of a proxy request: a pure parser from bytes to a decision's subject.

use crate::RefusalCode;
use crate::framing::Framing;
use crate::headers::{Fields, Length};
use crate::target::Target;

/// Fields a head may have.
const MAX_FIELDS: usize = 100;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A tunnel.
    Connect(Target),
    /// A plain HTTP exchange.
    Forward(Forward),
}

/// A plain HTTP request, rewritten for the origin server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Forward {
    pub(crate) target: Target,
    /// The head to send: origin form, one `Host`, `Connection: close`, nothing of the hop before.
    pub(crate) head: Vec<u8>,
    pub(crate) body: Framing,
    /// `HEAD`: the response has no body whatever its head says.
    pub(crate) is_head: bool,
    /// HTTP/1.0 clients understand neither the chunked coding nor interim responses.
    pub(crate) is_old: bool,
    /// Whether the client lets the connection go on.
    pub(crate) keep_alive: bool,
}

/// Parses a head. `Ok(None)` when more bytes are needed; otherwise the request and the length of its head.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, RefusalCode> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(RefusalCode::HeadTooLarge),
        Err(_) => return Err(RefusalCode::BadRequest),
    };
    let (Some(method), Some(uri), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(RefusalCode::BadRequest);
    };
    if !uri.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(RefusalCode::BadRequest);
    }
    let fields = Fields(parsed.headers);
    let body = fields.length().map_err(|_| RefusalCode::AmbiguousLength)?;
    let request = if method == "CONNECT" {
        if !matches!(body, Length::Unsaid | Length::Bytes(0)) {
            return Err(RefusalCode::AmbiguousLength);
        }
        Request::Connect(Target::parse_authority(uri)?)
    } else {
        Request::Forward(forward(method, uri, version, fields, body)?)
    };
    Ok(Some((request, length)))
}

fn forward(method: &str, uri: &str, version: u8, fields: Fields<'_>, said: Length) -> Result<Forward, RefusalCode> {
    let (target, path) = Target::parse_url(uri)?;
    let mut hosts = fields.all("host");
    let named = hosts.next().and_then(|host| std::str::from_utf8(host).ok()).and_then(Target::parse_host_header);
    if named.as_ref() != Some(&target) || hosts.next().is_some() {
        return Err(RefusalCode::HostMismatch);
    }
    let is_old = version == 0;
    let body = match said {
        Length::Unsaid => Framing::NONE,
        Length::Bytes(count) => Framing::Length(count),
        Length::Chunked if is_old => return Err(RefusalCode::AmbiguousLength),
        Length::Chunked => Framing::chunked_request(),
    };
    let mut head = format!("{method} {path} HTTP/1.{version}\r\nHost: {target}\r\n").into_bytes();
    fields.write_end_to_end(&mut head, &["host", "content-length"]);
    // The length as we read it, in the one spelling that everybody reads alike.
    match said {
        Length::Unsaid => {}
        Length::Bytes(count) => head.extend_from_slice(format!("Content-Length: {count}\r\n").as_bytes()),
        Length::Chunked => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    // One request per upstream connection: the next one is judged anew, and its answer cannot be mixed up with this.
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    let keep_alive = !is_old && !fields.asks_for_close();
    Ok(Forward { target, head, body, is_head: method == "HEAD", is_old, keep_alive })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Forward {
        match parse(text.as_bytes()) {
            Ok(Some((Request::Forward(forward), _))) => forward,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn rewrites_for_the_origin() {
        let forward = plain(
            "POST http://A.test:8080/p?q HTTP/1.1\r\nhost: a.test:8080\r\nProxy-Authorization: Basic c2VjcmV0\r\n\
             Proxy-Connection: keep-alive\r\nConnection: X-Hop, content-length, host\r\nX-Hop: 1\r\nTE: trailers\r\n\
             Upgrade: h2c\r\nAuthorization: Bearer own\r\nContent-Length: 003\r\n\r\n",
        );
        assert_eq!(
            String::from_utf8(forward.head).unwrap(),
            "POST /p?q HTTP/1.1\r\nHost: a.test:8080\r\nAuthorization: Bearer own\r\nContent-Length: 3\r\n\
             Connection: close\r\n\r\n"
        );
        assert_eq!(forward.body, Framing::Length(3));
        assert!(forward.keep_alive);
        assert!(!plain("GET http://a.test HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").keep_alive);
        assert!(!plain("GET http://a.test HTTP/1.0\r\nHost: a.test\r\n\r\n").keep_alive);
        let chunked = plain("PUT http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: Chunked\r\n\r\n");
        assert!(String::from_utf8(chunked.head).unwrap().contains("Transfer-Encoding: chunked\r\n"));
    }

    #[test]
    fn refuses_by_code() {
        use RefusalCode as C;
        let url = "POST http://a.test/ HTTP/1.1\r\n";
        for (text, code) in [
            ("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(), C::NotForAProxy),
            ("GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(), C::SchemeNotSupported),
            ("CONNECT a.test HTTP/1.1\r\n\r\n".to_owned(), C::BadRequest),
            ("CONNECT http://a.test:443 HTTP/1.1\r\n\r\n".to_owned(), C::BadRequest),
            ("CONNECT a.test:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n".to_owned(), C::AmbiguousLength),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), C::BadRequest),
            ("\x16\x03\x01\x02\x00\x01".to_owned(), C::BadRequest),
            (format!("{url}\r\n"), C::HostMismatch),
            (format!("{url}Host: b.test\r\n\r\n"), C::HostMismatch),
            (format!("{url}Host: a.test:81\r\n\r\n"), C::HostMismatch),
            (format!("{url}Host: a.test\r\nHost: a.test\r\n\r\n"), C::HostMismatch),
            (format!("{url}Host: a.test\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"), C::AmbiguousLength),
            (format!("{url}Host: a.test\r\nContent-Length: 1, 1\r\n\r\n"), C::AmbiguousLength),
            (format!("{url}Host: a.test\r\nContent-Length: +1\r\n\r\n"), C::AmbiguousLength),
            (format!("{url}Host: a.test\r\nContent-Length: 99999999999999999999\r\n\r\n"), C::AmbiguousLength),
            (
                format!("{url}Host: a.test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
                C::AmbiguousLength,
            ),
            (format!("{url}Host: a.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), C::AmbiguousLength),
            (
                format!("{url}Host: a.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
                C::AmbiguousLength,
            ),
            (
                "POST http://a.test/ HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
                C::AmbiguousLength,
            ),
            // A folded line, a space before the colon, a control character in a value.
            (format!("{url}Host: a.test\r\nX: 1\r\n Y: 2\r\n\r\n"), C::BadRequest),
            (format!("{url}Host: a.test\r\nContent-Length : 1\r\n\r\n"), C::BadRequest),
            (format!("{url}Host: a.test\r\nX: a\x00b\r\n\r\n"), C::BadRequest),
            (format!("{url}Host: a.test\r\nX: a\rb\r\n\r\n"), C::BadRequest),
            (format!("{url}Host: a.test\r\n{}\r\n", "X: y\r\n".repeat(120)), C::HeadTooLarge),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(code), "{text:?}");
        }
        assert_eq!(parse(b"CONNECT a.test:443 HTTP/1.1\r\nHost: x\r\n"), Ok(None));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>) {
            let _ = parse(&bytes);
            let _ = parse(&[b"GET http://".as_slice(), &bytes, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
            let _ = parse(&[b"GET http://a/ HTTP/1.1\r\nHost: a\r\n".as_slice(), &bytes, b"\r\n\r\n"].concat());
        }
    }
}
