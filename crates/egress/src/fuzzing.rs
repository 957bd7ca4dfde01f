//! Entry points for fuzzers: every parser of this crate that sees bytes from a sandbox or from the network.

use crate::framing::Framing;

/// A request head.
pub fn request(bytes: &[u8]) {
    let _ = crate::request::parse(bytes);
}

/// A response head, for an ordinary request and for `HEAD`.
pub fn response(bytes: &[u8]) {
    let _ = crate::response::parse(bytes, false);
    let _ = crate::response::parse(bytes, true);
}

/// A TLS ClientHello.
pub fn client_hello(bytes: &[u8]) {
    let _ = crate::parse_client_hello(bytes);
}

/// A SOCKS greeting, and a SOCKS request.
pub fn socks(bytes: &[u8]) {
    let _ = crate::socks::parse_greeting(bytes);
    let _ = crate::socks::parse_request(bytes);
}

/// The chunked coding, strict and lenient.
pub fn chunked(bytes: &[u8]) {
    let _ = Framing::chunked_request().advance(bytes);
    let _ = Framing::chunked_response().advance(bytes);
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use super::replay::replay;

    #[test]
    fn corpora_hold() {
        replay("request", super::request);
        replay("response", super::response);
        replay("client_hello", super::client_hello);
        replay("socks", super::socks);
        replay("chunked", super::chunked);
    }
}
