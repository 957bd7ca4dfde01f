//! The addresses of the machine Stead runs on, read from the kernel and kept fresh.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::deny::carried_v4;

/// How long a reading counts. An address that the machine gains is denied at the latest after this.
const FRESH_FOR: Duration = Duration::from_secs(5);

/// An address block that is local to the machine; a single address is a block of full prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl Network {
    /// A block; `prefix` is in bits, cut to the length of the address.
    pub fn new(address: IpAddr, prefix: u32) -> Self {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        Self { address, prefix: prefix.min(longest) }
    }

    /// Whether the address lies in the block.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (u32::from(own) ^ u32::from(other)).checked_shr(32 - self.prefix).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (u128::from(own) ^ u128::from(other)).checked_shr(128 - self.prefix).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Self::new(address, 128)
    }
}

/// The machine's own addresses: those the kernel calls local, and those an operator adds (a public address that a
/// cloud translates to this machine is known to no interface).
pub struct HostAddresses {
    added: Vec<Network>,
    /// `None` when only the added ones count.
    kernel: Option<Mutex<Option<Reading>>>,
}

struct Reading {
    at: Instant,
    tables: Tables,
    networks: Vec<Network>,
}

/// The kernel's tables, kept open: a process that gives up its rights to open files after the first reading still sees every
/// change.
struct Tables {
    ipv4: File,
    /// Absent where the kernel has no IPv6.
    ipv6: Option<File>,
}

impl HostAddresses {
    /// Reads the kernel's local addresses now, and again when they are needed, at most once in five seconds; adds `added`.
    pub fn system(added: Vec<IpAddr>) -> Self {
        // What cannot be read now is tried again when it is needed, and fails there.
        let reading = read_kernel(None).ok();
        Self { added: added.into_iter().map(Network::from).collect(), kernel: Some(Mutex::new(reading)) }
    }

    /// Exactly these, for tests and for machines whose addresses the operator knows better.
    pub fn fixed(addresses: Vec<IpAddr>) -> Self {
        Self { added: addresses.into_iter().map(Network::from).collect(), kernel: None }
    }

    /// A consistent copy of all own addresses.
    ///
    /// # Errors
    /// When the kernel's tables cannot be read and were never read before. A later failure keeps the last reading.
    pub fn snapshot(&self) -> io::Result<OwnNetworks> {
        let mut networks = self.added.clone();
        if let Some(kernel) = &self.kernel {
            let mut reading = kernel.lock().unwrap_or_else(PoisonError::into_inner);
            if reading.as_ref().is_none_or(|reading| reading.at.elapsed() >= FRESH_FOR) {
                match read_kernel(reading.take()) {
                    Ok(fresh) => *reading = Some(fresh),
                    Err((error, None)) => return Err(error),
                    Err((error, last)) => {
                        tracing::warn!(%error, "keeping the last reading of this machine's addresses");
                        *reading = last;
                    }
                }
            }
            if let Some(reading) = reading.as_ref() {
                networks.extend_from_slice(&reading.networks);
            }
        }
        Ok(OwnNetworks(networks))
    }
}

impl fmt::Debug for HostAddresses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HostAddresses").field("added", &self.added).finish_non_exhaustive()
    }
}

/// The own addresses at one moment.
pub struct OwnNetworks(Vec<Network>);

impl OwnNetworks {
    /// Whether the address, or an IPv4 address it carries, is the machine's own.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let carried = match address {
            IpAddr::V4(_) => Vec::new(),
            IpAddr::V6(address) => carried_v4(address),
        };
        let mut all = carried.into_iter().map(IpAddr::V4).chain([address]);
        all.any(|address| self.0.iter().any(|network| network.contains(address)))
    }
}

/// Reads the tables, opening them the first time. On failure the last reading comes back.
fn read_kernel(last: Option<Reading>) -> Result<Reading, (io::Error, Option<Reading>)> {
    match last {
        None => Tables::open().and_then(Tables::read).map_err(|error| (error, None)),
        Some(Reading { tables, networks, at }) => match tables.networks() {
            Ok(networks) => Ok(Reading { at: Instant::now(), tables, networks }),
            Err(error) => Err((error, Some(Reading { at, tables, networks }))),
        },
    }
}

impl Tables {
    fn open() -> io::Result<Self> {
        let ipv6 = match File::open("/proc/net/if_inet6") {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Self { ipv4: File::open("/proc/net/fib_trie")?, ipv6 })
    }

    fn read(self) -> io::Result<Reading> {
        let networks = self.networks()?;
        Ok(Reading { at: Instant::now(), tables: self, networks })
    }

    fn networks(&self) -> io::Result<Vec<Network>> {
        let mut networks = parse_fib_trie(&whole(&self.ipv4)?);
        if let Some(table) = &self.ipv6 {
            networks.extend(parse_if_inet6(&whole(table)?));
        }
        Ok(networks)
    }
}

/// The table as it is now.
fn whole(mut table: &File) -> io::Result<String> {
    let mut text = String::new();
    table.rewind()?;
    table.read_to_string(&mut text)?;
    Ok(text)
}

/// The local entries of the IPv4 routing trie: a leaf line `|-- 192.0.2.2` followed by lines `/32 host LOCAL`. A local
/// route may be wider than one address.
fn parse_fib_trie(table: &str) -> Vec<Network> {
    let mut networks: Vec<Network> = Vec::new();
    let mut leaf: Option<Ipv4Addr> = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        } else if let (Some(address), Some(rest)) = (leaf, line.strip_prefix('/')) {
            let mut words = rest.split_whitespace();
            let prefix = words.next().and_then(|prefix| prefix.parse().ok());
            if let (Some(prefix), true) = (prefix, words.any(|word| word == "LOCAL")) {
                let network = Network::new(IpAddr::V4(address), prefix);
                if !networks.contains(&network) {
                    networks.push(network);
                }
            }
        }
    }
    networks
}

/// Each line starts with an address in 32 hexadecimal digits.
fn parse_if_inet6(table: &str) -> Vec<Network> {
    let words = table.lines().filter_map(|line| line.split_whitespace().next());
    let addresses = words.filter_map(|word| u128::from_str_radix(word, 16).ok());
    addresses.map(|bits| Network::from(IpAddr::V6(Ipv6Addr::from(bits)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIB_TRIE: &str = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     \
        |-- 8.8.4.0\n        /24 link UNICAST\nLocal:\n     |-- 8.8.4.4\n        /32 host LOCAL\n     \
        |-- 8.8.4.255\n        /32 link BROADCAST\n     |-- 9.9.0.0\n        /16 host LOCAL\n";

    #[test]
    fn reads_the_kernels_tables() {
        let own = OwnNetworks(
            parse_fib_trie(FIB_TRIE)
                .into_iter()
                .chain(parse_if_inet6("26064700000000000000000000001111 04 40 00 80     eth0\n"))
                .collect(),
        );
        for (address, expected) in [
            ("8.8.4.4", true),
            ("8.8.4.5", false),
            ("8.8.4.0", false),
            ("9.9.1.2", true),
            ("9.10.0.0", false),
            ("2606:4700::1111", true),
            ("2606:4700::1112", false),
            ("2002:808:404::", true),
            ("64:ff9b::8.8.4.4", true),
        ] {
            assert_eq!(own.contains(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn this_machine_has_loopback_and_what_was_added() {
        let own = HostAddresses::system(vec!["1.2.3.4".parse().unwrap()]).snapshot().unwrap();
        assert!(own.contains("127.0.0.1".parse().unwrap()));
        assert!(own.contains("1.2.3.4".parse().unwrap()));
        assert!(!own.contains("1.2.3.5".parse().unwrap()));
    }
}
