//! What a retry is compared by.

use std::fmt::Write as _;

use http::HeaderMap;
use sha2::{Digest, Sha256};
use stead_domain::idempotency::IdempotencyScope;
use stead_domain::{Error, Result};

/// The header that makes a request repeatable (UHP §7.4).
const HEADER: &str = "idempotency-key";

/// The caller's key, 1 to 255 printable characters.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    let refused = || Error::invalid("Idempotency-Key", "an `Idempotency-Key` has 1 to 255 printable characters");
    let key = value.to_str().map_err(|_| refused())?;
    if key.is_empty() || key.len() > IdempotencyScope::MAX_KEY { Err(refused()) } else { Ok(Some(key.to_owned())) }
}

/// The hash of a body as it came, before anything mutable was read.
pub(crate) fn of(body: &[u8]) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(body) {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_bounds() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, value.parse().unwrap());
            key(&headers)
        };
        assert_eq!(key(&HeaderMap::new()).unwrap(), None);
        assert_eq!(with(&"k".repeat(255)).unwrap().map(|key| key.len()), Some(255));
        assert!(with(&"k".repeat(256)).is_err());
        assert!(with("").is_err());
        assert_eq!(of(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
