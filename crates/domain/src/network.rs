//! What a sandbox may reach.
//!
//! Private, link-local, metadata, reserved and the host's own addresses are denied in every policy. A policy that is told to a
//! narrower place (deployment, agent, turn) never widens what the wider place allows: see [`NetworkPolicy::within`].

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The sort of a policy, as providers say what they enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkMode {
    /// Loopback only.
    Disabled,
    /// Exact names through the egress proxy.
    Restricted,
    /// Open names through the egress proxy.
    Enabled,
}

impl NetworkMode {
    /// Every mode, narrowest first.
    pub const ALL: [NetworkMode; 3] = [Self::Disabled, Self::Restricted, Self::Enabled];

    /// The mode as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Restricted => "restricted",
            Self::Enabled => "enabled",
        }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

/// The most names that one policy lists.
pub const MAX_HOSTS: usize = 256;
/// The longest name, in bytes.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// Exact host names, at least one: lower case, ASCII, no wildcard, no address, no port. A name allows itself alone, not what lies
/// beneath it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllowedHosts(BTreeSet<String>);

impl AllowedHosts {
    /// Reads names; the first that is none is refused by name.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let refused = |message: String| Error::invalid("hosts", message);
        let mut hosts = BTreeSet::new();
        for name in names {
            hosts.insert(host_name(name).ok_or_else(|| {
                let shown: String = name.chars().take(80).flat_map(char::escape_default).collect();
                refused(format!(
                    "`{shown}` is not an exact host name: letters, digits and `-` between dots, no scheme, port, path, address or `*` \
                     (names of other scripts in their `xn--` form)"
                ))
            })?);
        }
        if hosts.is_empty() {
            return Err(refused("a restricted network needs at least one host name".to_owned()));
        }
        if hosts.len() > MAX_HOSTS {
            return Err(refused(format!("a restricted network lists at most {MAX_HOSTS} host names")));
        }
        Ok(Self(hosts))
    }

    /// The names, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether a name, in the spelling of this type, is among them.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Those that both have; `None` when there are none.
    fn shared(&self, other: &Self) -> Option<Self> {
        let shared: BTreeSet<String> = self.0.intersection(&other.0).cloned().collect();
        (!shared.is_empty()).then_some(Self(shared))
    }
}

/// The one spelling of a host name, if the text is one.
fn host_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=MAX_LABEL).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(plain)
    };
    // No public suffix is a number, so such a name is an address in one of its old spellings.
    let last = name.rsplit('.').next().unwrap_or(name);
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let number = last.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let fits = name.len() <= MAX_NAME && name.split('.').all(label) && !number;
    fits.then(|| name.to_ascii_lowercase())
}

/// The network of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(into = "String", try_from = "String")]
pub enum NetworkPolicy {
    /// Loopback only.
    Disabled,
    /// The egress proxy with exact names.
    Restricted(AllowedHosts),
    /// The egress proxy with open names.
    #[default]
    Enabled,
}

impl NetworkPolicy {
    /// Its sort.
    pub fn mode(&self) -> NetworkMode {
        match self {
            Self::Disabled => NetworkMode::Disabled,
            Self::Restricted(_) => NetworkMode::Restricted,
            Self::Enabled => NetworkMode::Enabled,
        }
    }

    /// What both allow: what is asked for in a narrower place, within the policy of a wider one.
    pub fn within(&self, wider: &Self) -> Self {
        match (self, wider) {
            (Self::Disabled, _) | (_, Self::Disabled) => Self::Disabled,
            (Self::Enabled, other) | (other, Self::Enabled) => other.clone(),
            (Self::Restricted(asked), Self::Restricted(allowed)) => {
                asked.shared(allowed).map_or(Self::Disabled, Self::Restricted)
            }
        }
    }

    /// Refuses what would go beyond the policy of a wider place, which `whose` names.
    pub fn check_within(&self, wider: &Self, whose: &str) -> Result<()> {
        if self.within(wider) == *self {
            return Ok(());
        }
        let allowed = match wider {
            Self::Restricted(hosts) => {
                let named: Vec<&str> = hosts.iter().take(5).collect();
                let more = if hosts.0.len() > named.len() { " and others" } else { "" };
                format!("`{}`{more}", named.join("`, `"))
            }
            other => format!("a network that is {}", other.mode().as_str()),
        };
        let beyond = match (self, wider) {
            (Self::Restricted(asked), Self::Restricted(allowed)) => {
                let beyond: Vec<&str> = asked.iter().filter(|name| !allowed.contains(name)).take(3).collect();
                format!("`{}`", beyond.join("`, `"))
            }
            (asked, _) => format!("`{}`", asked.mode().as_str()),
        };
        Err(Error::invalid("network", format!("{beyond} goes beyond what {whose} allows, which is {allowed}")))
    }
}

/// `disabled`, `enabled`, or `restricted` and the names, separated by spaces.
impl fmt::Display for NetworkPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.mode().as_str())?;
        if let Self::Restricted(hosts) = self {
            for host in hosts.iter() {
                write!(formatter, " {host}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for NetworkPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut words = text.split_ascii_whitespace();
        let mode = words.next().unwrap_or_default();
        let mode = NetworkMode::parse(mode).ok_or_else(|| {
            let shown: String = mode.chars().take(40).flat_map(char::escape_default).collect();
            Error::invalid("network", format!("`{shown}` is none of `disabled`, `restricted` and `enabled`"))
        })?;
        let names: Vec<&str> = words.collect();
        match mode {
            NetworkMode::Restricted => Ok(Self::Restricted(AllowedHosts::parse(names)?)),
            _ if !names.is_empty() => {
                Err(Error::invalid("hosts", format!("a network that is {} lists no host names", mode.as_str())))
            }
            NetworkMode::Disabled => Ok(Self::Disabled),
            NetworkMode::Enabled => Ok(Self::Enabled),
        }
    }
}

impl From<NetworkPolicy> for String {
    fn from(policy: NetworkPolicy) -> Self {
        policy.to_string()
    }
}

impl TryFrom<String> for NetworkPolicy {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

/// The network of a build.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum BuildNetworkPolicy {
    /// Loopback only.
    Disabled,
    /// The registries that the operator or the installers themselves name, and nothing else.
    #[default]
    Registries,
    /// The registries, and exact names besides.
    Restricted(AllowedHosts),
    /// The egress proxy with open names.
    Enabled,
}

impl BuildNetworkPolicy {
    const REGISTRIES: &'static str = "registries";

    /// Its place among the sorts, narrowest first.
    fn breadth(&self) -> u8 {
        match self {
            Self::Disabled => 0,
            Self::Registries => 1,
            Self::Restricted(_) => 2,
            Self::Enabled => 3,
        }
    }

    /// Its sort, as text.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Disabled => NetworkMode::Disabled.as_str(),
            Self::Registries => Self::REGISTRIES,
            Self::Restricted(_) => NetworkMode::Restricted.as_str(),
            Self::Enabled => NetworkMode::Enabled.as_str(),
        }
    }

    /// What both allow.
    pub fn within(&self, wider: &Self) -> Self {
        match (self, wider) {
            (Self::Restricted(asked), Self::Restricted(allowed)) => {
                asked.shared(allowed).map_or(Self::Registries, Self::Restricted)
            }
            _ if self.breadth() <= wider.breadth() => self.clone(),
            _ => wider.clone(),
        }
    }
}

/// `disabled`, `registries`, `enabled`, or `restricted` and the names, separated by spaces.
impl fmt::Display for BuildNetworkPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())?;
        if let Self::Restricted(hosts) = self {
            for host in hosts.iter() {
                write!(formatter, " {host}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for BuildNetworkPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.trim() == Self::REGISTRIES {
            return Ok(Self::Registries);
        }
        match text.parse::<NetworkPolicy>() {
            Ok(NetworkPolicy::Disabled) => Ok(Self::Disabled),
            Ok(NetworkPolicy::Restricted(hosts)) => Ok(Self::Restricted(hosts)),
            Ok(NetworkPolicy::Enabled) => Ok(Self::Enabled),
            Err(error) if error.param.as_deref() == Some("hosts") => Err(error),
            Err(_) => {
                let shown: String = text.chars().take(40).flat_map(char::escape_default).collect();
                let words = "`disabled`, `registries`, `restricted` and `enabled`";
                Err(Error::invalid("network", format!("`{shown}` is none of {words}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> NetworkPolicy {
        text.parse().unwrap()
    }

    #[test]
    fn a_policy_is_its_text() {
        for text in ["disabled", "enabled", "restricted a.example b.example"] {
            assert_eq!(policy(text).to_string(), text);
            assert_eq!(serde_json::to_value(policy(text)).unwrap(), text);
            assert_eq!(serde_json::from_value::<NetworkPolicy>(text.into()).unwrap(), policy(text));
        }
        assert_eq!(policy("restricted B.Example. a.example a.example").to_string(), "restricted a.example b.example");
        for text in ["disabled", "registries", "enabled", "restricted a.example"] {
            assert_eq!(text.parse::<BuildNetworkPolicy>().unwrap().to_string(), text);
        }
        for wrong in ["", "open", "disabled a.example", "Enabled"] {
            assert!(wrong.parse::<NetworkPolicy>().is_err(), "{wrong}");
            assert!(wrong.parse::<BuildNetworkPolicy>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_exact_names_are_listed() {
        let long = format!("{}.example", "a".repeat(64));
        for wrong in [
            "*.example",
            "a.example:443",
            "https://a.example",
            "a.example/x",
            "1.2.3.4",
            "::1",
            "[::1]",
            "127.1",
            "0x7f000001",
            "2130706433",
            "a..example",
            "-a.example",
            "a b",
            "bücher.example",
            "a.example,b.example",
            "",
            ".",
            &long,
        ] {
            let error = AllowedHosts::parse([wrong]).unwrap_err();
            assert_eq!(error.param.as_deref(), Some("hosts"), "{wrong}");
        }
        assert!(AllowedHosts::parse([]).is_err());
        let many: Vec<String> = (0..=MAX_HOSTS).map(|number| format!("h{number}.example")).collect();
        assert!(AllowedHosts::parse(many.iter().map(String::as_str)).is_err());
        assert!(AllowedHosts::parse(many.iter().take(MAX_HOSTS).map(String::as_str)).is_ok());
        assert!(AllowedHosts::parse(["xn--bcher-kva.example", "a_b.example"]).is_ok());
    }

    #[test]
    fn a_narrower_place_never_widens() {
        let (none, one, two, all) = (
            policy("disabled"),
            policy("restricted a.example"),
            policy("restricted a.example b.example"),
            policy("enabled"),
        );
        let cases = [
            (&none, &all, &none),
            (&all, &none, &none),
            (&one, &all, &one),
            (&all, &one, &one),
            (&two, &one, &one),
            (&one, &two, &one),
            (&policy("restricted c.example"), &two, &none),
            (&all, &all, &all),
        ];
        for (asked, wider, expected) in cases {
            assert_eq!(asked.within(wider), *expected, "{asked} within {wider}");
            assert_eq!(asked.check_within(wider, "the server").is_ok(), expected == asked, "{asked} within {wider}");
        }
        let message = two.check_within(&one, "the server").unwrap_err().to_string();
        assert!(message.contains("`b.example`") && message.contains("the server"), "{message}");

        let build = |text: &str| text.parse::<BuildNetworkPolicy>().unwrap();
        for (asked, wider, expected) in [
            ("enabled", "registries", "registries"),
            ("restricted a.example", "registries", "registries"),
            ("restricted a.example b.example", "restricted b.example", "restricted b.example"),
            ("restricted a.example", "restricted b.example", "registries"),
            ("registries", "enabled", "registries"),
            ("enabled", "disabled", "disabled"),
        ] {
            assert_eq!(build(asked).within(&build(wider)), build(expected), "{asked} within {wider}");
        }
    }
}
