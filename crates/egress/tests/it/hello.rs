//! The first message of a TLS client, as far as a proxy looks at it.

/// TLS 1.2 in the old field, which every version since then keeps there.
const VERSION: [u8; 2] = [3, 3];

pub(crate) fn vector(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u16).to_be_bytes(), content].concat()
}

pub(crate) fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [kind.to_be_bytes().as_slice(), &vector(content)].concat()
}

fn entry(name: &str) -> Vec<u8> {
    [&[0], vector(name.as_bytes()).as_slice()].concat()
}

/// The extension with these names.
pub(crate) fn server_names(names: &[&str]) -> Vec<u8> {
    extension(0, &vector(&names.iter().flat_map(|name| entry(name)).collect::<Vec<_>>()))
}

pub(crate) fn server_name(name: &str) -> Vec<u8> {
    server_names(&[name])
}

/// A handshake message of this version.
pub(crate) fn message(version: [u8; 2], extensions: &[u8]) -> Vec<u8> {
    let mut body = [version.as_slice(), &[9; 32], &[0], &vector(&[0x13, 0x01]), &[1, 0]].concat();
    body.extend(vector(extensions));
    [&[1, 0], vector(&body).as_slice()].concat()
}

/// The message in records of at most `size` bytes.
pub(crate) fn records(message: &[u8], size: usize) -> Vec<u8> {
    message.chunks(size).flat_map(|piece| [[22, 3, 1].as_slice(), &vector(piece)].concat()).collect()
}

pub(crate) fn client_hello(extensions: &[u8]) -> Vec<u8> {
    records(&message(VERSION, extensions), 16384)
}
