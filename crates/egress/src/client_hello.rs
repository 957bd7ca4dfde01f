//! The server name in a TLS ClientHello (RFC 8446 §4.1.2, RFC 6066 §3), read without taking part in the handshake.

use stead_outbound::HostName;

/// The longest ClientHello that is read, in bytes.
const MAX_HELLO: usize = 16 * 1024;
/// The most records it may be cut into.
const MAX_RECORDS: usize = 256;
const RECORD_HEADER: usize = 5;

const RECORD_HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const EXTENSION_SERVER_NAME: u16 = 0;
/// Encrypted ClientHello, and the draft before it. A client that only pretends (GREASE) cannot be told from one that
/// hides a name, so both count.
const EXTENSIONS_ENCRYPTED: [u16; 2] = [0xfe0d, 0xffce];

/// What a ClientHello says about the server it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The name in clear, if there is one.
    pub server_name: Option<HostName>,
    /// Whether another name may be hidden in it.
    pub encrypted: bool,
}

/// The bytes are not the start of a well-formed ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a TLS ClientHello")]
pub struct NotAClientHello;

/// How far the reading of a ClientHello is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Whole(Hello),
    /// Nothing new can be said before the stream has so many bytes. Whoever sends single bytes would have them all read again
    /// each time.
    Needs(usize),
}

/// Reads the ClientHello at the start of a stream, across record boundaries; `Ok(None)` when more bytes are needed.
/// Never needs more than about 16 KiB.
pub fn parse_client_hello(bytes: &[u8]) -> Result<Option<Hello>, NotAClientHello> {
    match read(bytes)? {
        Reading::Whole(hello) => Ok(Some(hello)),
        Reading::Needs(_) => Ok(None),
    }
}

/// As [`parse_client_hello`], and says how many bytes are needed.
pub(crate) fn read(bytes: &[u8]) -> Result<Reading, NotAClientHello> {
    let mut message = Vec::new();
    let mut rest = bytes;
    for _ in 0..=MAX_RECORDS {
        if let Some(length) = message_length(&message)? {
            if message.len() == length {
                return parse_body(&message[4..]).map(Reading::Whole);
            }
            // Nothing may follow a ClientHello in its record.
            if message.len() > length {
                return Err(NotAClientHello);
            }
        }
        match next_record(rest)? {
            Record::Whole(payload, after) => {
                message.extend_from_slice(payload);
                rest = after;
            }
            Record::Needs(count) => return Ok(Reading::Needs(bytes.len() - rest.len() + count)),
        }
        if message.len() > MAX_HELLO {
            return Err(NotAClientHello);
        }
    }
    Err(NotAClientHello)
}

enum Record<'a> {
    /// A payload, and the bytes after the record.
    Whole(&'a [u8], &'a [u8]),
    /// The record, or its header, has so many bytes.
    Needs(usize),
}

/// Splits off one handshake record; wrong bytes are refused as soon as they are there.
fn next_record(bytes: &[u8]) -> Result<Record<'_>, NotAClientHello> {
    if bytes.first().is_some_and(|kind| *kind != RECORD_HANDSHAKE) || bytes.get(1).is_some_and(|major| *major != 3) {
        return Err(NotAClientHello);
    }
    let [_, _, _, high, low, rest @ ..] = bytes else { return Ok(Record::Needs(RECORD_HEADER)) };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if length == 0 || length > MAX_HELLO {
        return Err(NotAClientHello);
    }
    Ok(match rest.split_at_checked(length) {
        Some((payload, after)) => Record::Whole(payload, after),
        None => Record::Needs(RECORD_HEADER + length),
    })
}

/// The length of the handshake message with its header, once the header is there.
fn message_length(message: &[u8]) -> Result<Option<usize>, NotAClientHello> {
    if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Err(NotAClientHello);
    }
    let [_, high, middle, low, ..] = message else { return Ok(None) };
    let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize + 4;
    if length > MAX_HELLO { Err(NotAClientHello) } else { Ok(Some(length)) }
}

fn parse_body(body: &[u8]) -> Result<Hello, NotAClientHello> {
    let mut body = Reader(body);
    // SSL 3 knows no extensions: a server that speaks it would choose a site without looking at the name.
    if !matches!(body.take(2)?, [3, 1..=255]) {
        return Err(NotAClientHello);
    }
    body.take(32)?;
    let session = body.short_vector()?;
    let suites = body.long_vector()?;
    let compressions = body.short_vector()?;
    if session.len() > 32 || suites.is_empty() || suites.len() % 2 != 0 || compressions.is_empty() {
        return Err(NotAClientHello);
    }
    let mut hello = Hello { server_name: None, encrypted: false };
    if body.0.is_empty() {
        return Ok(hello);
    }
    let mut extensions = Reader(body.long_vector()?);
    if !body.0.is_empty() {
        return Err(NotAClientHello);
    }
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let content = extensions.long_vector()?;
        if kind == EXTENSION_SERVER_NAME {
            let name = parse_server_name(content)?;
            if hello.server_name.replace(name).is_some() {
                return Err(NotAClientHello);
            }
        }
        hello.encrypted |= EXTENSIONS_ENCRYPTED.contains(&kind);
    }
    Ok(hello)
}

/// A list of exactly one name of type `host_name`; a server might pick another one from a longer list than we do.
fn parse_server_name(content: &[u8]) -> Result<HostName, NotAClientHello> {
    let mut content = Reader(content);
    let mut list = Reader(content.long_vector()?);
    let kind = list.take(1)?[0];
    let name = list.long_vector()?;
    if kind != 0 || !list.0.is_empty() || !content.0.is_empty() {
        return Err(NotAClientHello);
    }
    let name = std::str::from_utf8(name).map_err(|_| NotAClientHello)?;
    // RFC 6066 allows no trailing dot, and a server that does not expect one may take the name for an unknown one.
    if name.ends_with('.') {
        return Err(NotAClientHello);
    }
    name.parse().map_err(|_| NotAClientHello)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], NotAClientHello> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(NotAClientHello)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u16, NotAClientHello> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn short_vector(&mut self) -> Result<&'a [u8], NotAClientHello> {
        let length = usize::from(self.take(1)?[0]);
        self.take(length)
    }

    fn long_vector(&mut self) -> Result<&'a [u8], NotAClientHello> {
        let length = usize::from(self.number()?);
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u16).to_be_bytes(), content].concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [kind.to_be_bytes().as_slice(), &vector(content)].concat()
    }

    fn server_name(name: &str) -> Vec<u8> {
        extension(0, &vector(&[&[0], vector(name.as_bytes()).as_slice()].concat()))
    }

    fn message(extensions: &[u8]) -> Vec<u8> {
        let mut body = [[3, 3].as_slice(), &[7; 32], &[0], &vector(&[0x13, 0x01]), &[1, 0]].concat();
        body.extend(vector(extensions));
        [&[1, 0], (body.len() as u16).to_be_bytes().as_slice(), &body].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message.chunks(size).flat_map(|piece| [[22, 3, 1].as_slice(), &vector(piece)].concat()).collect()
    }

    #[test]
    fn finds_the_name_however_it_is_cut() {
        let message = message(&[extension(10, &[0, 2, 0, 29]), server_name("Example.test")].concat());
        for size in [1, 3, 50, 16384] {
            let mut bytes = records(&message, size);
            let end = bytes.len();
            bytes.extend_from_slice(b"\x17\x03\x03early data");
            for cut in 0..end {
                assert_eq!(parse_client_hello(&bytes[..cut]), Ok(None), "record {size}, cut {cut}");
            }
            let hello = parse_client_hello(&bytes).unwrap().unwrap();
            assert_eq!(hello.server_name.unwrap().as_str(), "example.test");
            assert!(!hello.encrypted);
        }
        assert_eq!(parse_client_hello(&records(&long_message(), 60)).map(|hello| hello.is_some()), Ok(true));
        assert_eq!(parse_client_hello(&records(&long_message(), 20)), Err(NotAClientHello), "too many records");
    }

    fn long_message() -> Vec<u8> {
        message(&[server_name("a.test"), extension(21, &[0; 8000])].concat())
    }

    #[test]
    fn single_bytes_are_not_read_again_and_again() {
        let bytes = records(&long_message(), 100);
        let (mut needed, mut readings) = (0, 0);
        for end in 1..=bytes.len() {
            if end >= needed {
                readings += 1;
                match read(&bytes[..end]).unwrap() {
                    Reading::Needs(count) => {
                        assert!(count > end, "asks for what it has");
                        needed = count;
                    }
                    Reading::Whole(_) => assert_eq!(end, bytes.len()),
                }
            }
        }
        assert!(readings <= 2 * 82 + 1, "{readings} readings of {} records", bytes.len() / 105 + 1);
    }

    #[test]
    fn tells_missing_and_encrypted_from_malformed() {
        let parse = |extensions: &[u8]| parse_client_hello(&records(&message(extensions), 16384));
        assert_eq!(parse(&[]), Ok(Some(Hello { server_name: None, encrypted: false })));
        let hidden = [server_name("front.test"), extension(0xfe0d, &[0; 8])].concat();
        assert!(parse(&hidden).unwrap().unwrap().encrypted);
        let two = [vector(b"a.test"), vec![0], vector(b"b.test")].concat();
        for bytes in [
            [server_name("a.test"), server_name("b.test")].concat(),
            extension(0, &vector(&[&[0], two.as_slice()].concat())),
            server_name("10.0.0.1"),
            server_name("a.test."),
            server_name("a b"),
            server_name(""),
            extension(0, &[]),
        ] {
            assert_eq!(parse(&bytes), Err(NotAClientHello), "{bytes:?}");
        }
        for bytes in [
            b"GET / HTTP/1.1".as_slice(),
            b"SSH-2.0-x",
            b"\x80\x2e\x01",
            b"\x16\x02",
            b"\x16\x03\x01\x00\x00",
            b"\x16\x03\x01\x00\x01\x02",
        ] {
            assert_eq!(parse_client_hello(bytes), Err(NotAClientHello), "{bytes:?}");
        }
        let mut old = message(&server_name("a.test"));
        old[5] = 0;
        assert_eq!(parse_client_hello(&records(&old, 16384)), Err(NotAClientHello), "SSL 3");
        let glued = [message(&server_name("a.test")), vec![1, 0, 0, 0]].concat();
        assert_eq!(parse_client_hello(&records(&glued, 16384)), Err(NotAClientHello));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>, flips in proptest::collection::vec((0usize..100, 0u8..=255), 0..6)) {
            let _ = parse_client_hello(&bytes);
            let mut hello = records(&message(&[server_name("example.test"), extension(0xfe0d, &bytes)].concat()), 16384);
            for (at, value) in flips {
                if let Some(byte) = hello.get_mut(at) {
                    *byte = value;
                }
            }
            let _ = parse_client_hello(&hello);
        }
    }
}
