//! SOCKS 5 (RFC 1928) on the same socket, for programs that speak no HTTP proxy: no authentication, `CONNECT` alone.
//!
//! It is another way to ask for a tunnel and no other way out: the same names, ports, addresses, server names, bounds, counters
//! and lines of the log as for HTTP's `CONNECT`. Names are resolved here; a client that resolves by itself finds no name server
//! in its sandbox.

use std::io;
use std::net::IpAddr;

use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout_at};

use crate::connection::{ClientReader, ClientWriter, Shared, part};
use crate::counters::Traffic;
use crate::refusal::{Dialect, Failure};
use crate::target::Target;
use crate::{Host, RefusalCode, tunnel};

/// The first byte of everything a client says; no HTTP request begins with it.
pub(crate) const VERSION: u8 = 5;

const NO_AUTHENTICATION: u8 = 0;
const COMMAND_CONNECT: u8 = 1;
const ADDRESS_V4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_V6: u8 = 4;

const METHOD_ACCEPTED: [u8; 2] = [VERSION, NO_AUTHENTICATION];
/// "No acceptable method": the one refusal there is before a request.
pub(crate) const NO_METHOD: [u8; 2] = [VERSION, 0xff];
/// The longest message before a tunnel is open: a request for a name of 255 bytes has 262.
const MAX_MESSAGE: usize = 512;

/// A reply field of RFC 1928 §6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Succeeded = 0,
    GeneralFailure = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    TimeToLiveExpired = 6,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

impl Reply {
    /// The whole reply. The bound address is left out (0.0.0.0:0): which address of ours a connection has is nobody's business
    /// inside a sandbox.
    pub(crate) fn message(self) -> [u8; 10] {
        [VERSION, self as u8, 0, ADDRESS_V4, 0, 0, 0, 0, 0, 0]
    }
}

/// Reads the greeting. `Ok(None)` when more bytes are needed; otherwise its length.
pub(crate) fn parse_greeting(bytes: &[u8]) -> Result<Option<((), usize)>, RefusalCode> {
    if bytes.first().is_some_and(|version| *version != VERSION) {
        return Err(RefusalCode::BadRequest);
    }
    let [_, count, rest @ ..] = bytes else { return Ok(None) };
    let Some(methods) = rest.get(..usize::from(*count)) else { return Ok(None) };
    if methods.contains(&NO_AUTHENTICATION) { Ok(Some(((), 2 + methods.len()))) } else { Err(RefusalCode::SocksMethod) }
}

/// Reads a request. `Ok(None)` when more bytes are needed; otherwise the target and the length of the request.
pub(crate) fn parse_request(bytes: &[u8]) -> Result<Option<(Target, usize)>, RefusalCode> {
    if bytes.first().is_some_and(|version| *version != VERSION) || bytes.get(2).is_some_and(|reserved| *reserved != 0) {
        return Err(RefusalCode::BadRequest);
    }
    let [_, command, _, kind, rest @ ..] = bytes else { return Ok(None) };
    if *command != COMMAND_CONNECT {
        return Err(RefusalCode::SocksCommand);
    }
    let length = match (*kind, rest.first()) {
        (ADDRESS_V4, _) => 4,
        (ADDRESS_V6, _) => 16,
        (ADDRESS_NAME, Some(length)) => 1 + usize::from(*length),
        (ADDRESS_NAME, None) => return Ok(None),
        _ => return Err(RefusalCode::SocksAddress),
    };
    let (Some(address), Some(port)) = (rest.get(..length), rest.get(length..length + 2)) else { return Ok(None) };
    let target = Target { host: host(*kind, address)?, port: u16::from_be_bytes([port[0], port[1]]) };
    Ok(Some((target, 4 + length + 2)))
}

fn host(kind: u8, address: &[u8]) -> Result<Host, RefusalCode> {
    let literal = match kind {
        ADDRESS_V4 => <[u8; 4]>::try_from(address).ok().map(IpAddr::from),
        ADDRESS_V6 => <[u8; 16]>::try_from(address).ok().map(IpAddr::from),
        _ => None,
    };
    if let Some(address) = literal {
        return Ok(Host::Literal(address.to_canonical()));
    }
    // Behind the byte of its length. An address spelled as a name is judged as the address.
    let name = address.get(1..).and_then(|name| std::str::from_utf8(name).ok());
    name.and_then(|name| name.parse().ok()).ok_or(RefusalCode::BadRequest)
}

/// Serves a connection that began with [`VERSION`] to its end.
pub(crate) async fn serve(mut reader: ClientReader, mut writer: ClientWriter, shared: &Shared, traffic: &Traffic) {
    // One deadline for greeting and request, so that a byte now and then does not keep a connection alive.
    let deadline = Instant::now() + shared.policy.limits.head;
    let greeted = async {
        read(&mut reader, deadline, parse_greeting).await?;
        writer.write_all(&METHOD_ACCEPTED).await?;
        Ok(())
    };
    if let Err(failure) = greeted.await {
        return part(failure, None, Dialect::SocksGreeting, &mut reader, &mut writer, shared).await;
    }
    let target = match read(&mut reader, deadline, parse_request).await {
        Ok(target) => target,
        Err(failure) => return part(failure, None, Dialect::Socks, &mut reader, &mut writer, shared).await,
    };
    match tunnel::open(&target, &mut writer, shared, traffic, &Reply::Succeeded.message()).await {
        Ok(upstream) => tunnel::run(&target, upstream, reader, writer, shared, traffic).await,
        Err(failure) => part(failure, Some(&target), Dialect::Socks, &mut reader, &mut writer, shared).await,
    }
}

async fn read<T>(
    reader: &mut ClientReader,
    deadline: Instant,
    parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, RefusalCode>,
) -> Result<T, Failure> {
    loop {
        if let Some((message, length)) = parse(reader.peek())? {
            reader.take(length);
            return Ok(message);
        }
        match timeout_at(deadline, reader.fill(MAX_MESSAGE)).await {
            Ok(Ok(1..)) => {}
            Ok(Ok(0)) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(RefusalCode::HeadTimeout.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn whole<T>(
        bytes: &[u8],
        parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, RefusalCode>,
    ) -> Result<(T, usize), RefusalCode> {
        for cut in 0..bytes.len() {
            match parse(&bytes[..cut]) {
                Ok(None) => {}
                Ok(Some(_)) => panic!("{bytes:?} ends at {cut}"),
                Err(code) => return Err(code),
            }
        }
        parse(bytes).map(|parsed| parsed.expect("a whole message"))
    }

    fn request(command: u8, kind: u8, address: &[u8]) -> Result<(String, u16), RefusalCode> {
        let bytes = [&[VERSION, command, 0, kind], address, &443_u16.to_be_bytes()].concat();
        let (target, length) = whole(&bytes, parse_request)?;
        assert_eq!(length, bytes.len());
        Ok((target.host.to_string(), target.port))
    }

    #[test]
    fn reads_names_and_addresses_however_they_are_cut() {
        let to = |text: &str| Ok((text.to_owned(), 443));
        assert_eq!(request(1, 3, b"\x06A.test"), to("a.test"));
        // Names as long as an address is.
        assert_eq!(request(1, 3, b"\x03a.b"), to("a.b"));
        assert_eq!(request(1, 3, b"\x0flong-name1.test"), to("long-name1.test"));
        assert_eq!(request(1, 3, b"\x0710.0.0."), Err(RefusalCode::BadRequest));
        assert_eq!(request(1, 3, b"\x0810.0.0.1"), to("10.0.0.1"));
        assert_eq!(request(1, 1, &[3, 0, 0, 1]), to("3.0.0.1"));
        assert_eq!(request(1, 4, &Ipv6Addr::LOCALHOST.octets()), to("[::1]"));
        assert_eq!(request(1, 4, &Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets()), to("127.0.0.1"));
        assert_eq!(whole(&[5, 2, 2, 0], parse_greeting), Ok(((), 4)));
    }

    #[test]
    fn refuses_by_code() {
        use RefusalCode as C;
        for (command, kind, address, code) in [
            (2, 1, b"\x08\x08\x08\x08".as_slice(), C::SocksCommand),
            (3, 1, b"\x08\x08\x08\x08", C::SocksCommand),
            (0, 1, b"\x08\x08\x08\x08", C::SocksCommand),
            (1, 0, b"", C::SocksAddress),
            (1, 2, b"", C::SocksAddress),
            (1, 3, b"\x00", C::BadRequest),
            (1, 3, b"\x05127.1", C::BadRequest),
            (1, 3, b"\x03a b", C::BadRequest),
            (1, 3, b"\x03a\x00b", C::BadRequest),
            (1, 3, b"\x02\xff\xfe", C::BadRequest),
        ] {
            assert_eq!(request(command, kind, address), Err(code), "{command} {kind} {address:?}");
        }
        assert_eq!(whole(&[5, 1, 1, 1], parse_request), Err(C::BadRequest), "a reserved byte that is not zero");
        assert_eq!(whole(&[4, 1], parse_request), Err(C::BadRequest));
        assert_eq!(whole(&[5, 2, 1, 2], parse_greeting), Err(C::SocksMethod));
        assert_eq!(whole(&[5, 0], parse_greeting), Err(C::SocksMethod));
    }

    proptest::proptest! {
        #[test]
        fn never_panics_and_never_takes_too_much(bytes: Vec<u8>) {
            for bytes in [bytes.clone(), [&[VERSION, 1, 0], bytes.as_slice()].concat()] {
                if let Ok(Some(((), length))) = parse_greeting(&bytes) {
                    proptest::prop_assert!(length <= bytes.len());
                }
                if let Ok(Some((_, length))) = parse_request(&bytes) {
                    proptest::prop_assert!(length <= bytes.len());
                }
            }
        }
    }
}
