//! What the launcher says on the command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What the program was started for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Be the runtime.
    Serve(Config),
    /// Watch over one command; used by the runtime alone.
    Supervise,
    /// Say what this program is.
    Version,
}

/// The runtime's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// SHA-256 of the token that connections must prove.
    pub token_digest: [u8; 32],
    /// Addresses to forward.
    pub proxies: Vec<Proxy>,
    /// Kills everything and ends when there has been no server for this long; never when there is none.
    pub orphan_grace: Option<Duration>,
}

/// A TCP address inside whose connections are forwarded to a unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Where to listen: a loopback address.
    pub listen: SocketAddr,
    /// The stream socket that every connection is forwarded to.
    pub socket: PathBuf,
}

/// Why the arguments cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No token digest, or not 64 hexadecimal digits.
    #[error("the first argument must be the token's SHA-256 as 64 hexadecimal digits")]
    Digest,
    /// A `--proxy` without a value or with one that is not `ADDRESS:PORT=SOCKET` on a loopback address.
    #[error("--proxy needs LOOPBACK_ADDRESS:PORT=SOCKET")]
    Proxy,
    /// An `--orphan-grace` without a value or with one that is no number of seconds.
    #[error("--orphan-grace needs a number of seconds")]
    OrphanGrace,
    /// Something else.
    #[error("unknown argument {0:?}")]
    Unknown(OsString),
}

impl Config {
    /// Reads the arguments without the program's name.
    pub fn from_arguments(arguments: impl IntoIterator<Item = OsString>) -> Result<Mode, ConfigError> {
        let mut arguments = arguments.into_iter();
        let first = arguments.next().ok_or(ConfigError::Digest)?;
        let alone = match first.to_str() {
            Some("supervise") => Some(Mode::Supervise),
            Some("--version") => Some(Mode::Version),
            _ => None,
        };
        if let Some(mode) = alone {
            return arguments.next().map_or(Ok(mode), |extra| Err(ConfigError::Unknown(extra)));
        }
        let token_digest = first.to_str().and_then(digest).ok_or(ConfigError::Digest)?;
        let (mut proxies, mut orphan_grace) = (Vec::new(), None);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next()?.into_string().ok();
            match argument.to_str() {
                Some("--proxy") => proxies.push(value().as_deref().and_then(proxy).ok_or(ConfigError::Proxy)?),
                Some("--orphan-grace") => {
                    let seconds: Option<u64> = value().and_then(|value| value.parse().ok());
                    let grace = Duration::from_secs(seconds.ok_or(ConfigError::OrphanGrace)?);
                    orphan_grace = Some(grace).filter(|grace| !grace.is_zero());
                }
                _ => return Err(ConfigError::Unknown(argument)),
            }
        }
        Ok(Mode::Serve(Self { token_digest, proxies, orphan_grace }))
    }
}

fn digest(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    (digits.len() == 64).then(|| bytes.try_into().ok())?
}

fn proxy(text: &str) -> Option<Proxy> {
    let (address, socket) = text.split_once('=')?;
    let listen: SocketAddr = address.parse().ok()?;
    (listen.ip().is_loopback() && socket.starts_with('/')).then(|| Proxy { listen, socket: PathBuf::from(socket) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Mode, ConfigError> {
        Config::from_arguments(arguments.iter().map(OsString::from))
    }

    #[test]
    fn arguments_are_read_strictly() {
        let hash = "0f".repeat(32);
        let Ok(Mode::Serve(config)) = parse(&[&hash, "--proxy", "127.0.0.1:3128=/run/egress.sock"]) else {
            panic!("refused");
        };
        assert_eq!(config.token_digest, [0x0f; 32]);
        assert_eq!(config.proxies[0].socket, PathBuf::from("/run/egress.sock"));
        assert_eq!(config.orphan_grace, None);
        let grace = |value| match parse(&[&hash, "--orphan-grace", value]) {
            Ok(Mode::Serve(config)) => Ok(config.orphan_grace),
            other => other.map(|_| None),
        };
        assert_eq!(grace("90"), Ok(Some(Duration::from_secs(90))));
        assert_eq!(grace("0"), Ok(None));
        assert_eq!(grace("-1"), Err(ConfigError::OrphanGrace));
        assert_eq!(parse(&[&hash, "--orphan-grace"]), Err(ConfigError::OrphanGrace));
        assert_eq!(parse(&["supervise"]), Ok(Mode::Supervise));
        assert_eq!(parse(&[]), Err(ConfigError::Digest));
        assert_eq!(parse(&["0f"]), Err(ConfigError::Digest));
        assert_eq!(parse(&[&hash, "--proxy", "0.0.0.0:1=/x"]), Err(ConfigError::Proxy));
        assert!(matches!(parse(&[&hash, "--other"]), Err(ConfigError::Unknown(_))));
    }
}
