//! Conditional requests (RFC 9110 §13). A file's tag is strong and says which bytes it holds; the same bytes under another
//! name, or with another executable bit, have the same tag.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use http::header::{AsHeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use stead_domain::precondition::{Precondition, Tags};
use stead_domain::{BlobId, Code, Error, Result, Timestamp};

use crate::range::Wanted;

/// The tag of a file with these bytes.
pub(crate) fn tag(bytes: BlobId) -> Result<HeaderValue> {
    HeaderValue::from_str(&format!("\"{bytes}\"")).map_err(Error::internal)
}

/// An instant as headers carry it, in whole seconds.
pub(crate) fn date(at: Timestamp) -> Result<HeaderValue> {
    HeaderValue::from_str(&httpdate::fmt_http_date(instant(at))).map_err(Error::internal)
}

fn instant(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(at.as_seconds()).unwrap_or(0))
}

/// What a write requires of the file that it changes. A condition that cannot be read is refused: a write without it is one
/// that its caller does not want.
pub(crate) fn of_write(headers: &HeaderMap) -> Result<Precondition> {
    let dated = headers.contains_key(IF_UNMODIFIED_SINCE).then(|| {
        let date =
            since(headers, &IF_UNMODIFIED_SINCE).and_then(|date| date.duration_since(SystemTime::UNIX_EPOCH).ok());
        let micros = date.and_then(|since| i64::try_from(since.as_micros()).ok());
        let refused = || Error::invalid("if-unmodified-since", "`if-unmodified-since` is one date in GMT");
        micros.map(Timestamp::from_micros).ok_or_else(refused)
    });
    Ok(Precondition {
        matching: tags(headers, &IF_MATCH, false)?,
        differing: tags(headers, &IF_NONE_MATCH, true)?,
        unmodified_since: dated.transpose()?,
    })
}

/// How a read is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reading {
    /// With the whole file.
    Whole,
    /// With these bytes of it.
    Part(Range<u64>),
    /// Not at all: the caller has the bytes.
    Unchanged,
    /// With the refusal of a range that lies beyond the end.
    Beyond,
}

/// What a request means for a file of `length` bytes that were written at `modified`, in the order of RFC 9110 §13.2.2.
/// `If-Range` with a date is the whole file: seconds do not tell two writes apart.
pub(crate) fn of_read(
    method: &Method,
    headers: &HeaderMap,
    (bytes, length, modified): (BlobId, u64, Timestamp),
) -> Result<Reading> {
    let stands = match tags(headers, &IF_MATCH, false)? {
        Some(tags) => tags.name_bytes(bytes),
        None => since(headers, &IF_UNMODIFIED_SINCE).is_none_or(|date| instant(modified) <= date),
    };
    if !stands {
        return Err(Error::new(Code::PreconditionFailed, "the file is not the one that the request requires"));
    }
    let known = match tags(headers, &IF_NONE_MATCH, true) {
        Ok(Some(tags)) => tags.name_bytes(bytes),
        Ok(None) => since(headers, &IF_MODIFIED_SINCE).is_some_and(|date| instant(modified) <= date),
        Err(_) => false,
    };
    if known {
        return Ok(Reading::Unchanged);
    }
    // A range of what has changed would be put beside the rest of what it was.
    let same = !headers.contains_key(IF_RANGE)
        || matches!(tags(headers, &IF_RANGE, false), Ok(Some(Tags::These(tags))) if tags == [bytes]);
    let (Some(range), true) = (text(headers, RANGE), same && *method == Method::GET) else { return Ok(Reading::Whole) };
    Ok(match Wanted::parse(range, length) {
        Wanted::Whole => Reading::Whole,
        Wanted::Part(part) => Reading::Part(part),
        Wanted::Beyond => Reading::Beyond,
    })
}

/// The value of a header that is there once and is text.
fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

/// The date of a header; one that cannot be read counts as absent.
fn since(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(text(headers, name)?).ok()
}

/// The tags that a condition lists. A weak one is left out where only strong ones count, and so is one that no file of ours
/// can have.
fn tags(headers: &HeaderMap, name: &HeaderName, weak_too: bool) -> Result<Option<Tags>> {
    let refused = || Error::invalid(name.as_str(), format!("`{name}` is `*` or a list of tags in double quotes"));
    let lines: Vec<_> = headers.get_all(name).iter().collect();
    if lines.is_empty() {
        return Ok(None);
    }
    if let [line] = lines.as_slice()
        && line.as_bytes().trim_ascii() == b"*"
    {
        return Ok(Some(Tags::Any));
    }
    let mut found = Vec::new();
    for line in lines {
        let mut rest = line.as_bytes().trim_ascii_start();
        while !rest.is_empty() {
            if let Some(behind) = rest.strip_prefix(b",") {
                rest = behind.trim_ascii_start();
                continue;
            }
            let weak = rest.starts_with(b"W/");
            let opened = rest[if weak { 2 } else { 0 }..].strip_prefix(b"\"").ok_or_else(refused)?;
            let end = opened.iter().position(|byte| *byte == b'"').ok_or_else(refused)?;
            let tag = std::str::from_utf8(&opened[..end]).ok().and_then(|tag| tag.parse::<BlobId>().ok());
            found.extend(tag.filter(|_| weak_too || !weak));
            rest = opened[end + 1..].trim_ascii_start();
            if !rest.is_empty() && !rest.starts_with(b",") {
                return Err(refused());
            }
        }
    }
    Ok(Some(Tags::These(found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: BlobId = BlobId::from_bytes([0xab; 32]);
    const OTHER: BlobId = BlobId::from_bytes([0xcd; 32]);
    /// Half a second past the instant that its date says.
    const MODIFIED: Timestamp = Timestamp::from_micros(784_111_777_500_000);

    fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn tags_are_lists_of_quoted_texts() {
        let (ours, other) = (format!("\"{BYTES}\""), format!("\"{OTHER}\""));
        let read = |text: &str, weak| tags(&headers(&[(IF_MATCH, text)]), &IF_MATCH, weak);
        assert_eq!(read(" * ", false).unwrap(), Some(Tags::Any));
        assert_eq!(read(&ours, false).unwrap(), Some(Tags::These(vec![BYTES])));
        assert_eq!(read(&format!("{ours} ,, {other},"), false).unwrap(), Some(Tags::These(vec![BYTES, OTHER])));
        assert_eq!(read(&format!("W/{ours}"), false).unwrap(), Some(Tags::These(vec![])));
        assert_eq!(read(&format!("W/{ours}, \"a,b\""), true).unwrap(), Some(Tags::These(vec![BYTES])));
        for wrong in ["abc", "\"abc", "*, \"a\"", "w/\"a\"", "\"a\" \"b\"", &BYTES.to_string()] {
            assert_eq!(read(wrong, true).unwrap_err().param.as_deref(), Some("if-match"), "{wrong}");
        }
        let two = headers(&[(IF_NONE_MATCH, &ours), (IF_NONE_MATCH, &other)]);
        assert_eq!(of_write(&two).unwrap().differing, Some(Tags::These(vec![BYTES, OTHER])));
        assert_eq!(of_write(&HeaderMap::new()).unwrap(), Precondition::default());
        let dated = |date| of_write(&headers(&[(IF_UNMODIFIED_SINCE, date)]));
        let second = dated("Sun, 06 Nov 1994 08:49:37 GMT").unwrap().unmodified_since.map(Timestamp::as_seconds);
        assert_eq!(second, Some(784_111_777));
        assert_eq!(dated("yesterday").unwrap_err().param.as_deref(), Some("if-unmodified-since"));
    }

    #[test]
    fn reads_are_conditional_in_the_order_of_the_standard() {
        let (ours, other) = (format!("\"{BYTES}\""), format!("\"{OTHER}\""));
        let (ours, other) = (ours.as_str(), other.as_str());
        let (then, before, after) =
            ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 1994 08:49:38 GMT");
        assert_eq!(date(MODIFIED).unwrap(), then);
        let read = |method: &Method, lines: &[_]| of_read(method, &headers(lines), (BYTES, 10, MODIFIED));
        let part = (RANGE, "bytes=2-4");
        for (lines, expected) in [
            (vec![], Reading::Whole),
            (vec![part.clone()], Reading::Part(2..5)),
            (vec![(RANGE, "bytes=10-")], Reading::Beyond),
            (vec![part.clone(), part.clone()], Reading::Whole),
            (vec![part.clone(), (IF_RANGE, ours)], Reading::Part(2..5)),
            (vec![part.clone(), (IF_RANGE, other)], Reading::Whole),
            (vec![part.clone(), (IF_RANGE, then)], Reading::Whole),
            (vec![part.clone(), (IF_RANGE, "*")], Reading::Whole),
            (vec![(IF_NONE_MATCH, ours), part.clone()], Reading::Unchanged),
            (vec![(IF_NONE_MATCH, "*")], Reading::Unchanged),
            (vec![(IF_NONE_MATCH, "broken")], Reading::Whole),
            (vec![(IF_NONE_MATCH, other), (IF_MODIFIED_SINCE, after)], Reading::Whole),
            (vec![(IF_MODIFIED_SINCE, then)], Reading::Unchanged),
            (vec![(IF_MODIFIED_SINCE, before)], Reading::Whole),
            (vec![(IF_MODIFIED_SINCE, "yesterday")], Reading::Whole),
            (vec![(IF_MATCH, ours), (IF_UNMODIFIED_SINCE, before)], Reading::Whole),
            (vec![(IF_UNMODIFIED_SINCE, then)], Reading::Whole),
        ] {
            assert_eq!(read(&Method::GET, &lines).unwrap(), expected, "{lines:?}");
        }
        for lines in [vec![(IF_MATCH, other)], vec![(IF_UNMODIFIED_SINCE, before)]] {
            assert_eq!(read(&Method::GET, &lines).unwrap_err().code, Code::PreconditionFailed, "{lines:?}");
        }
        assert_eq!(read(&Method::GET, &[(IF_MATCH, "x")]).unwrap_err().code, Code::InvalidInput);
        assert_eq!(read(&Method::HEAD, &[part]).unwrap(), Reading::Whole);
    }
}
