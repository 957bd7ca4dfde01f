//! What one caller may reach: names, ports, and the operator's exemptions from the deny list.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{DialError, Host, HostName};

/// Which names may be asked for. Checked before anything is resolved, so a refused name causes no DNS question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameRule {
    /// Every name and every literal; the addresses are still judged.
    Open,
    /// Exactly these names: no wildcards, no subdomains, and of address literals those alone that the operator exempts.
    Exact(BTreeSet<HostName>),
    /// Exactly these, where an address literal may be one of them.
    Hosts(BTreeSet<Host>),
}

/// Which ports may be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortRule {
    /// Every port but 0.
    Any,
    /// Exactly these.
    Only(BTreeSet<u16>),
}

/// Names, ports and exemptions of one caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The names that may be asked for.
    pub names: NameRule,
    /// The ports that may be asked for.
    pub ports: PortRule,
    /// Hosts the operator named although the deny list covers their addresses. Give them only where the exemption
    /// holds (builds); it lifts [the denials that can be lifted](crate::DenyReason::can_be_exempted) and nothing else.
    pub exempt_hosts: BTreeSet<Host>,
    /// Single endpoints that are allowed whatever the deny list says of their address.
    pub extra_allowed: Vec<SocketAddr>,
}

impl Policy {
    /// Open names, any port, no exemption: the deny list alone decides.
    pub fn open() -> Self {
        Self { names: NameRule::Open, ports: PortRule::Any, exempt_hosts: BTreeSet::new(), extra_allowed: Vec::new() }
    }

    /// Checks what can be checked before resolving.
    pub fn admit(&self, host: &Host, port: u16) -> Result<(), DialError> {
        let named = match (&self.names, host) {
            (NameRule::Open, _) => true,
            (NameRule::Exact(names), Host::Name(name)) => names.contains(name),
            (NameRule::Exact(_), Host::Literal(_)) => self.exempt_hosts.contains(host),
            (NameRule::Hosts(hosts), host) => hosts.contains(host),
        };
        if !named {
            return Err(DialError::NameNotAllowed { host: host.clone() });
        }
        let open = port != 0
            && match &self.ports {
                PortRule::Any => true,
                PortRule::Only(ports) => ports.contains(&port),
            };
        if open { Ok(()) } else { Err(DialError::PortNotAllowed { host: host.clone(), port }) }
    }
}

impl FromIterator<u16> for PortRule {
    fn from_iter<I: IntoIterator<Item = u16>>(ports: I) -> Self {
        Self::Only(ports.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_back_and_names_are_parsed_again() {
        let names = NameRule::Exact(BTreeSet::from(["example.com".parse().unwrap()]));
        let ports = PortRule::from_iter([80, 443]);
        let hosts = NameRule::Hosts(BTreeSet::from(["[::1]".parse().unwrap(), "a.test".parse().unwrap()]));
        let text = serde_json::to_string(&(&names, &ports, &hosts, PortRule::Any)).unwrap();
        assert_eq!(text, r#"[{"exact":["example.com"]},{"only":[80,443]},{"hosts":["a.test","[::1]"]},"any"]"#);
        assert_eq!(
            serde_json::from_str::<(NameRule, PortRule, NameRule, PortRule)>(&text).unwrap(),
            (names, ports, hosts, PortRule::Any)
        );
        assert_eq!(
            serde_json::from_str::<NameRule>(r#"{"exact":["EXAMPLE.com."]}"#).unwrap(),
            NameRule::Exact(BTreeSet::from(["example.com".parse().unwrap()]))
        );
        for bad in [r#"{"exact":["10.0.0.1"]}"#, r#"{"exact":["*.example.com"]}"#, r#"{"hosts":["127.1"]}"#] {
            assert!(serde_json::from_str::<NameRule>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn exact_names_admit_neither_relatives_nor_literals() {
        let mut policy = Policy::open();
        policy.names = NameRule::Exact(BTreeSet::from(["example.com".parse().unwrap()]));
        policy.ports = PortRule::from_iter([443]);
        let admit = |host: &str, port| policy.admit(&host.parse().unwrap(), port);
        assert!(admit("EXAMPLE.com.", 443).is_ok());
        for host in ["www.example.com", "example.com.evil.test", "com", "93.184.216.34", "[2606:2800::1]"] {
            assert!(matches!(admit(host, 443), Err(DialError::NameNotAllowed { .. })), "{host}");
        }
        let mut exempting = policy.clone();
        exempting.exempt_hosts.insert("10.0.0.7".parse().unwrap());
        let admit_exempt = |host: &str| exempting.admit(&host.parse().unwrap(), 443);
        assert!(admit_exempt("10.0.0.7").is_ok() && admit_exempt("10.0.0.8").is_err());
        assert!(matches!(admit("example.com", 80), Err(DialError::PortNotAllowed { port: 80, .. })));
        assert!(matches!(Policy::open().admit(&"a.test".parse().unwrap(), 0), Err(DialError::PortNotAllowed { .. })));
    }
}
