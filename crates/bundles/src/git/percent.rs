//! Percent encoding of one part of a URL.

use std::fmt::Write as _;

/// Decodes; `None` where a `%` is not followed by two digits or the result is not UTF-8.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        decoded.push((high * 16 + low) as u8);
    }
    String::from_utf8(decoded).ok()
}

/// Encodes everything but what is never special.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// The same with digits in lower case, as some programs write them.
pub(super) fn encode_lower(text: &str) -> String {
    let mut encoded = encode(text).into_bytes();
    for start in 0..encoded.len() {
        if encoded[start] == b'%' {
            encoded[start + 1..start + 3].make_ascii_lowercase();
        }
    }
    // Changing the case of ASCII letters keeps it ASCII.
    String::from_utf8(encoded).unwrap_or_default()
}
