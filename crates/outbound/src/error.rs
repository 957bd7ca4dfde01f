//! Why a connection was not made.

use std::io;
use std::net::IpAddr;

use crate::{DenyReason, Host};

/// An address that was resolved and refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The address.
    pub address: IpAddr,
    /// Why it may not be reached.
    pub reason: DenyReason,
}

/// Why a connection was not made. The messages may be shown to the user who named the host: they hold the name, never
/// an address that only our resolver knows.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The policy lists exact names, and this host is not among them.
    #[error("the network policy does not allow the host {host}")]
    NameNotAllowed {
        /// What was asked for.
        host: Host,
    },
    /// The policy does not open this port.
    #[error("the network policy does not allow port {port} (host {host})")]
    PortNotAllowed {
        /// What was asked for.
        host: Host,
        /// The port.
        port: u16,
    },
    /// The name has no address, or the resolver did not answer in time.
    #[error("could not resolve the host {host}")]
    Resolve {
        /// What was asked for.
        host: Host,
        /// The resolver's answer; `TimedOut` at the deadline.
        #[source]
        source: io::Error,
    },
    /// Every address of the host is on the deny list.
    #[error("the host {host} has no address that may be reached ({})", .denied.first().map_or("none", |denied| denied.reason.as_str()))]
    AllDenied {
        /// What was asked for.
        host: Host,
        /// Every address with its reason, for the log.
        denied: Vec<Denied>,
    },
    /// No judged address accepted the connection in time.
    #[error("could not connect to the host {host}")]
    Connect {
        /// What was asked for.
        host: Host,
        /// The last attempt's failure; `TimedOut` at the deadline.
        #[source]
        source: io::Error,
    },
    /// The machine's own addresses are not known, so nothing can be judged.
    #[error("could not read the addresses of this machine")]
    OwnAddresses {
        /// The failed read.
        #[source]
        source: io::Error,
    },
}
