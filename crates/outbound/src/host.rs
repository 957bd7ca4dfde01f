//! Host names and address literals, in one spelling each.
//!
//! Comparing names is only meaningful when both sides were spelled by the same rules, so a [`HostName`] can be made by
//! parsing alone: lower case, no trailing dot, ASCII labels. Forms that some resolvers read as numbers (`127.1`,
//! `0x7f000001`, `2130706433`) are refused instead of guessed at.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest name DNS can carry in text form, in bytes.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A DNS name: lower case, 1 to 253 bytes, labels of letters, digits, `-` and `_`, without a trailing dot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

/// What a user may write where a host belongs: a name, or an address literal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Host {
    /// A name that has to be resolved.
    Name(HostName),
    /// A literal, IPv4-mapped IPv6 already reduced to the IPv4 address.
    Literal(IpAddr),
}

/// The text is neither a host name nor an address literal. The text itself is not repeated: it may be anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid host name or address")]
pub struct InvalidHost;

impl HostName {
    /// The name in its one spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() || text.len() > MAX_NAME {
            return Err(InvalidHost);
        }
        if !text.split('.').all(is_label) || ends_in_a_number(text) {
            return Err(InvalidHost);
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

fn is_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !label.is_empty()
        && label.len() <= MAX_LABEL
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(inner)
}

/// No public suffix is a number, so such a "name" is an address in one of the legacy spellings of `inet_aton`.
fn ends_in_a_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    last.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl FromStr for Host {
    type Err = InvalidHost;

    /// Accepts a name, a dotted IPv4 literal, and an IPv6 literal with or without brackets; a zone is refused.
    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(InvalidHost)?;
            let address: Ipv6Addr = inner.parse().map_err(|_| InvalidHost)?;
            return Ok(Self::Literal(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Literal(IpAddr::V4(address)));
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Self::Literal(IpAddr::V6(address).to_canonical()));
        }
        text.parse().map(Self::Name)
    }
}

impl TryFrom<String> for HostName {
    type Error = InvalidHost;

    fn try_from(text: String) -> Result<Self, InvalidHost> {
        text.parse()
    }
}

impl From<HostName> for String {
    fn from(name: HostName) -> Self {
        name.0
    }
}

impl TryFrom<String> for Host {
    type Error = InvalidHost;

    fn try_from(text: String) -> Result<Self, InvalidHost> {
        text.parse()
    }
}

impl From<Host> for String {
    fn from(host: Host) -> Self {
        host.to_string()
    }
}

impl From<HostName> for Host {
    fn from(name: HostName) -> Self {
        Self::Name(name)
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for Host {
    /// The form a URL uses: IPv6 literals in brackets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(formatter),
            Self::Literal(IpAddr::V4(address)) => address.fmt(formatter),
            Self::Literal(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_per_name() {
        for text in ["Example.COM", "example.com.", "EXAMPLE.com"] {
            assert_eq!(text.parse::<HostName>().unwrap().as_str(), "example.com");
        }
        assert_eq!("my_host-1".parse::<Host>().unwrap().to_string(), "my_host-1");
        assert_eq!("[2001:4860::8]".parse::<Host>().unwrap().to_string(), "[2001:4860::8]");
        assert_eq!("[::ffff:10.0.0.1]".parse::<Host>().unwrap(), Host::Literal("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn refuses_what_a_resolver_might_read_differently() {
        let long_label = "a".repeat(64);
        let long_name = "a.".repeat(130);
        for text in [
            "",
            ".",
            "..",
            "a..b",
            "-a",
            "a-.b",
            "a b",
            "a/b",
            "a@b",
            "a:1",
            "a%00",
            "ex\u{e4}mple",
            "127.1",
            "0x7f.1",
            "0x7f000001",
            "2130706433",
            "0177.0.0.1",
            "1.2.3.4.",
            "1.2.3.256",
            "[::1",
            "[::1%eth0]",
            "::1%lo",
            "[1.2.3.4]",
            "a\r\nb",
            long_label.as_str(),
            long_name.as_str(),
        ] {
            assert_eq!(text.parse::<Host>(), Err(InvalidHost), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn parsing_never_panics_and_what_is_accepted_reads_back(text in "\\PC{0,40}|[0-9a-fx:.%\\[\\]-]{0,40}") {
            if let Ok(host) = text.parse::<Host>() {
                proptest::prop_assert_eq!(host.to_string().parse::<Host>(), Ok(host));
            }
        }
    }
}
