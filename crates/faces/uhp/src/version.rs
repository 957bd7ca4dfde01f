//! The protocol version (UHP §2): asked for by the header `UHP-Version`, and named on every answer.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use stead_domain::Error;

use crate::errors::Failure;

/// The version that this face speaks.
pub const VERSION: &str = "2026-09-28";

/// The header that carries it, both ways.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("uhp-version");

/// Refuses a request that asks for another version.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), Failure> {
    if headers.get_all(HEADER).iter().all(|asked| asked.as_bytes() == VERSION.as_bytes()) {
        return Ok(());
    }
    let error = Error::invalid("UHP-Version", "this version of the protocol is not spoken here")
        .detail(json!({ "supported": [VERSION] }));
    Err(Failure::from(error).coded("unsupported_protocol_version"))
}

/// Whether the caller says that it speaks UHP. It matters on paths that another protocol shares.
pub(crate) fn is_named(headers: &HeaderMap) -> bool {
    headers.contains_key(HEADER)
}

/// Names the version on an answer.
pub(crate) fn stamp(headers: &mut HeaderMap) {
    headers.insert(HEADER, HeaderValue::from_static(VERSION));
}
