//! Where a request wants to go.

use std::fmt;

use stead_outbound::Host;

use crate::RefusalCode;

/// The port of `http://` URLs that name none.
const HTTP_PORT: u16 = 80;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

impl Target {
    /// The authority form of `CONNECT`: the port is required.
    pub(crate) fn parse_authority(text: &str) -> Result<Self, RefusalCode> {
        match split(text) {
            Some((host, Some(port))) => Ok(Self { host, port }),
            _ => Err(RefusalCode::BadRequest),
        }
    }

    /// The value of a `Host` header for an `http://` URL.
    pub(crate) fn parse_host_header(text: &str) -> Option<Self> {
        let (host, port) = split(text)?;
        Some(Self { host, port: port.unwrap_or(HTTP_PORT) })
    }

    /// An absolute `http://` URL; returns the target and the origin form (path and query, at least `/`).
    pub(crate) fn parse_url(url: &str) -> Result<(Self, String), RefusalCode> {
        let Some((scheme, rest)) = url.split_once("://") else {
            let origin_form = url.starts_with('/') || url == "*";
            return Err(if origin_form { RefusalCode::NotForAProxy } else { RefusalCode::BadRequest });
        };
        if url.starts_with('/') {
            return Err(RefusalCode::NotForAProxy);
        }
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(RefusalCode::SchemeNotSupported);
        }
        // A fragment never travels, and a reader that accepts one may see another authority than we do.
        if rest.contains(['#', '\\']) {
            return Err(RefusalCode::BadRequest);
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let target = Self::parse_host_header(authority).ok_or(RefusalCode::BadRequest)?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok((target, path))
    }
}

impl fmt::Display for Target {
    /// The authority as a `Host` header for an `http://` URL.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.port == HTTP_PORT { self.host.fmt(formatter) } else { write!(formatter, "{}:{}", self.host, self.port) }
    }
}

/// Splits `host[:port]`; an IPv6 literal must stand in brackets. User information is refused with the host's alphabet.
fn split(text: &str) -> Option<(Host, Option<u16>)> {
    let end = if text.starts_with('[') { text.find(']')? + 1 } else { text.find(':').unwrap_or(text.len()) };
    let (host, rest) = text.split_at(end);
    let host = host.parse().ok()?;
    if rest.is_empty() {
        return Some((host, None));
    }
    let digits = rest.strip_prefix(':')?;
    let plain = !digits.is_empty() && digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let port = if plain { digits.parse().ok()? } else { return None };
    Some((host, Some(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_authorities_and_urls() {
        for (text, expected) in [
            ("a.test:443", Some("a.test:443")),
            ("[::1]:80", Some("[::1]")),
            ("A.test.:80", Some("a.test")),
            ("a.test", None),
            ("a.test:", None),
            ("a.test:+1", None),
            ("a.test:65536", None),
            ("::1:443", None),
            ("u@a.test:443", None),
            (":443", None),
            ("[::1]443", None),
            ("a.test:443/", None),
        ] {
            assert_eq!(
                Target::parse_authority(text).ok().map(|target| target.to_string()).as_deref(),
                expected,
                "{text}"
            );
        }
        for (url, target, path) in [
            ("http://a.test", "a.test", "/"),
            ("HTTP://a.test:80/x?y=/z", "a.test", "/x?y=/z"),
            ("http://a.test:81?q", "a.test:81", "/?q"),
            ("http://a.test/http://b.test/", "a.test", "/http://b.test/"),
        ] {
            let (parsed, rest) = Target::parse_url(url).unwrap();
            assert_eq!((parsed.to_string().as_str(), rest.as_str()), (target, path), "{url}");
        }
        for (url, code) in [
            ("/", RefusalCode::NotForAProxy),
            ("*", RefusalCode::NotForAProxy),
            ("/x?u=http://a.test", RefusalCode::NotForAProxy),
            ("https://a.test/", RefusalCode::SchemeNotSupported),
            ("ftp://a.test/", RefusalCode::SchemeNotSupported),
            ("http://u:p@a.test/", RefusalCode::BadRequest),
            ("http:///", RefusalCode::BadRequest),
            ("a.test:80", RefusalCode::BadRequest),
            ("http://a.test#@b.test/", RefusalCode::BadRequest),
            ("http://a.test\\@b.test/", RefusalCode::BadRequest),
        ] {
            assert_eq!(Target::parse_url(url).map(|_| ()), Err(code), "{url}");
        }
    }
}
