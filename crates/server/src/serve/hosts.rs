//! Which names clients may address the server by.
//!
//! A web page of a stranger can point a name of its own at this server; its browser then sends that name in the Host header.
//! So the header must carry loopback, the address listened on, or a name that the operator configured.

use std::net::{IpAddr, SocketAddr};

/// The names allowed.
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    listening: IpAddr,
    names: Vec<String>,
}

/// What a Host header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// Another server's name: 421.
    Foreign,
    /// Not a host at all: 400.
    Malformed,
}

impl Hosts {
    pub(super) fn new(listening: SocketAddr, names: &[String]) -> Self {
        Self { listening: listening.ip(), names: names.to_vec() }
    }

    pub(super) fn judge(&self, header: &str) -> Verdict {
        let Some(host) = without_port(header) else { return Verdict::Malformed };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            let own = address.is_loopback() || (address == self.listening && !address.is_unspecified());
            if own {
                return Verdict::Allowed;
            }
        }
        let host = host.to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host);
        if host == "localhost" || self.names.iter().any(|name| name == host) {
            Verdict::Allowed
        } else {
            Verdict::Foreign
        }
    }
}

/// The host of `host`, `host:port`, `[address]` or `[address]:port`.
fn without_port(header: &str) -> Option<&str> {
    let (host, port) = match header.strip_prefix('[') {
        Some(rest) => {
            let end = rest.find(']')?;
            let after = &rest[end + 1..];
            let port = if after.is_empty() { None } else { Some(after.strip_prefix(':')?) };
            (&header[..end + 2], port)
        }
        None => match header.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (header, None),
        },
    };
    let port_is_one = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    (!host.is_empty() && port_is_one && host.bytes().all(plain)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_the_own_address_and_configured_names_alone() {
        let hosts = Hosts::new("10.1.2.3:80".parse().unwrap(), &["stead.example".to_owned()]);
        for allowed in [
            "localhost",
            "localhost:7077",
            "LOCALHOST:1",
            "127.0.0.1",
            "127.9.9.9:80",
            "[::1]",
            "[::1]:7077",
            "10.1.2.3:80",
            "stead.example",
            "Stead.Example.:443",
        ] {
            assert_eq!(hosts.judge(allowed), Verdict::Allowed, "{allowed}");
        }
        for foreign in ["evil.test", "10.1.2.4", "localhost.evil.test", "xstead.example", "0.0.0.0", "[::]"] {
            assert_eq!(hosts.judge(foreign), Verdict::Foreign, "{foreign}");
        }
        for malformed in ["", ":80", "a:b", "[::1", "[::1]x", "a b", "a/b", "localhost:99999", "user@localhost"] {
            assert_eq!(hosts.judge(malformed), Verdict::Malformed, "{malformed}");
        }
        let everywhere = Hosts::new("0.0.0.0:80".parse().unwrap(), &[]);
        assert_eq!(everywhere.judge("0.0.0.0"), Verdict::Foreign);
    }
}
