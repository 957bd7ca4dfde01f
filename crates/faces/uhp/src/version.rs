//! The protocol version (UHP §2): asked for by the header `UHP-Version`, and named on every answer.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use stead_domain::Error;

use crate::errors::Failure;

/// The version that this face speaks when nobody asks for another.
pub const VERSION: &str = "2026-09-28";

/// Every version that it speaks, newest first. Each adds to the one before and takes nothing away (UHP §17), so what a client of
/// an older one asks for means the same in all of them.
pub const VERSIONS: [&str; 3] = [VERSION, "2026-09-12", "2026-08-11"];

/// The header that carries it, both ways.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("uhp-version");

/// The version to answer in: the one that is asked for, when it is spoken here.
pub(crate) fn of(headers: &HeaderMap) -> &'static str {
    let asked = headers.get(HEADER).map(HeaderValue::as_bytes);
    VERSIONS.into_iter().find(|version| Some(version.as_bytes()) == asked).unwrap_or(VERSION)
}

/// Refuses a request that asks for a version that is not spoken here, or for several.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), Failure> {
    let spoken = of(headers);
    if headers.get_all(HEADER).iter().all(|asked| asked.as_bytes() == spoken.as_bytes()) {
        return Ok(());
    }
    let error = Error::invalid("UHP-Version", "this version of the protocol is not spoken here")
        .detail(json!({ "supported": VERSIONS }));
    Err(Failure::from(error).coded("unsupported_protocol_version"))
}

/// Whether the caller says that it speaks UHP. It matters on paths that another protocol shares.
pub(crate) fn is_named(headers: &HeaderMap) -> bool {
    headers.contains_key(HEADER)
}

/// Names the version on an answer.
pub(crate) fn stamp(headers: &mut HeaderMap, version: &'static str) {
    headers.insert(HEADER, HeaderValue::from_static(version));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_answered_in_itself_and_no_other_is_spoken() {
        let asking = |versions: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for version in versions {
                headers.append(HEADER, HeaderValue::from_static(version));
            }
            headers
        };
        for version in VERSIONS {
            assert_eq!(of(&asking(&[version])), version);
            assert!(check(&asking(&[version])).is_ok());
        }
        assert_eq!(of(&asking(&[])), VERSION);
        assert!(check(&asking(&[])).is_ok());
        for wrong in [&["1999-01-01"][..], &["2026-08-11", "2026-09-28"], &[""], &["2026-08-11 "]] {
            assert!(check(&asking(wrong)).is_err(), "{wrong:?}");
        }
    }
}
