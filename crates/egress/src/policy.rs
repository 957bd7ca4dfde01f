//! What one sandbox may reach, and how much of it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stead_outbound::{Host, HostName, NameRule, PortRule};

/// The egress policy of one sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Names the sandbox for the log: an environment or build id.
    pub label: String,
    /// Whose sandbox it is: a workspace. All sandboxes of a group have one part of the process's connections and name lookups
    /// together. The constructors make each sandbox a group of its own, named as its label.
    pub group: String,
    /// Open, or exactly these hosts. Exact names also require a matching server name in every tunnel.
    pub names: NameRule,
    /// Ports for tunnels and for plain requests.
    pub ports: PortRule,
    /// Hosts the operator named although the deny list covers their addresses. For builds and imports only; a session's
    /// policy leaves it empty. Under exact names a name must be listed in `names` as well; an address needs no more than this.
    pub registry_hosts: BTreeSet<Host>,
    /// Single endpoints that are allowed whatever the deny list says.
    pub extra_allowed: Vec<SocketAddr>,
    /// Bounds.
    pub limits: Limits,
}

/// Bounds of one sandbox's use of the proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Time without a byte in either direction before a connection is closed.
    pub idle: Duration,
    /// Time for a request head, and for a ClientHello, from its first byte; and for that first byte of a new connection.
    pub head: Duration,
    /// Size of a request head in bytes.
    pub head_bytes: usize,
    /// Bytes in both directions over the life of the socket; `None` for no bound. A connection is cut at the first step
    /// past the bound, which may exceed it by up to 1 MiB.
    pub total_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            idle: Duration::from_mins(2),
            head: Duration::from_secs(15),
            head_bytes: 16 * 1024,
            total_bytes: None,
        }
    }
}

impl Policy {
    /// Open names on the ports of the web, its usual alternatives and ssh. Mail (25) is closed unless a caller opens it.
    pub fn open(label: impl Into<String>) -> Self {
        Self::new(label.into(), NameRule::Open, PortRule::from_iter([22, 80, 443, 8080, 8443]))
    }

    /// Exactly these names, on ports 80 and 443.
    pub fn exact(label: impl Into<String>, names: impl IntoIterator<Item = HostName>) -> Self {
        let names = NameRule::Exact(names.into_iter().collect());
        Self::new(label.into(), names, PortRule::from_iter([80, 443]))
    }

    /// One host, a name or an address literal, on these ports, whatever a tunnel to it carries. It is given up after 30 seconds
    /// of silence: there is nothing else to do meanwhile.
    pub fn only(label: impl Into<String>, host: Host, ports: impl IntoIterator<Item = u16>) -> Self {
        let mut policy = Self::new(label.into(), NameRule::Hosts(BTreeSet::from([host])), PortRule::from_iter(ports));
        policy.limits.idle = Duration::from_secs(30);
        policy
    }

    fn new(label: String, names: NameRule, ports: PortRule) -> Self {
        let (registry_hosts, extra_allowed) = (BTreeSet::new(), Vec::new());
        let group = label.clone();
        Self { label, group, names, ports, registry_hosts, extra_allowed, limits: Limits::default() }
    }

    /// Whether a tunnel must show its server name.
    pub(crate) fn requires_server_name(&self) -> bool {
        matches!(self.names, NameRule::Exact(_))
    }

    /// The policy as the dialer takes it.
    pub fn dial_policy(&self) -> stead_outbound::Policy {
        stead_outbound::Policy {
            names: self.names.clone(),
            ports: self.ports.clone(),
            exempt_hosts: self.registry_hosts.clone(),
            extra_allowed: self.extra_allowed.clone(),
        }
    }
}
