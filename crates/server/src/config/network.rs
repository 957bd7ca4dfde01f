//! Networks of sessions and builds, as an operator writes them: a sort in one option, names in another.

use std::collections::BTreeSet;

use stead_domain::network::{AllowedHosts, BuildNetworkPolicy, NetworkMode, NetworkPolicy};
use stead_outbound::{Host, PortRule};
use toml::Value;

use super::reader::Reader;

const RESTRICTED: &str = NetworkMode::Restricted.as_str();
const WEB: &str = "web";
const ALL: &str = "all";

/// The ports that an enabled network opens for sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionPorts {
    /// Every port.
    All,
    /// Those of the web, if so, and these.
    Listed {
        /// Whether those are among them that the proxy opens by itself.
        web: bool,
        /// The others.
        ports: BTreeSet<u16>,
    },
}

impl SessionPorts {
    /// The ports as the proxy takes them, where it opens `web` by itself.
    pub(crate) fn rule(&self, web: &PortRule) -> PortRule {
        match (self, web) {
            (Self::All, _) | (Self::Listed { web: true, .. }, PortRule::Any) => PortRule::Any,
            (Self::Listed { web: true, ports }, PortRule::Only(open)) => PortRule::Only(open | ports),
            (Self::Listed { web: false, ports }, _) => PortRule::Only(ports.clone()),
        }
    }
}

/// `sessions.network` and `sessions.hosts`.
pub(super) fn of_sessions(reader: &mut Reader) -> NetworkPolicy {
    let mode = reader.parsed("sessions.network", NetworkMode::Disabled, |text| {
        NetworkMode::parse(text)
            .ok_or_else(|| format!("`{text}` is none of \"enabled\", \"restricted\" and \"disabled\""))
    });
    let hosts = hosts(reader, "sessions", mode == NetworkMode::Restricted);
    match mode {
        NetworkMode::Enabled => NetworkPolicy::Enabled,
        // Without names the configuration is refused anyway.
        NetworkMode::Restricted => hosts.map_or(NetworkPolicy::Disabled, NetworkPolicy::Restricted),
        NetworkMode::Disabled => NetworkPolicy::Disabled,
    }
}

/// `builds.network` and `builds.hosts`.
pub(super) fn of_builds(reader: &mut Reader) -> BuildNetworkPolicy {
    let key = "builds.network";
    let text = reader.text(key);
    let hosts = hosts(reader, "builds", text == RESTRICTED);
    if text == RESTRICTED {
        return hosts.map_or(BuildNetworkPolicy::Disabled, BuildNetworkPolicy::Restricted);
    }
    let plain = if text.contains(' ') { None } else { text.parse().ok() };
    plain.unwrap_or_else(|| {
        let sorts = "\"registries\", \"enabled\", \"restricted\" and \"disabled\"";
        reader.refuse(key, format!("`{text}` is none of {sorts}"));
        BuildNetworkPolicy::Disabled
    })
}

/// `builds.network_limit`.
pub(super) fn limit_of_builds(reader: &mut Reader) -> BuildNetworkPolicy {
    reader.parsed("builds.network_limit", BuildNetworkPolicy::Disabled, str::parse)
}

/// The names of a section whose network is restricted, or not.
fn hosts(reader: &mut Reader, section: &str, restricted: bool) -> Option<AllowedHosts> {
    let key = format!("{section}.hosts");
    let names = reader.list(&key);
    if !restricted {
        if !names.is_empty() {
            reader.refuse(&key, format!("names count only where `{section}.network` is \"{RESTRICTED}\""));
        }
        return None;
    }
    match AllowedHosts::parse(names.iter().map(String::as_str)) {
        Ok(hosts) => Some(hosts),
        Err(why) => {
            reader.refuse(&key, why);
            None
        }
    }
}

/// `builds.registries`: hosts, each with or without a port.
pub(super) fn registries(reader: &mut Reader) -> Vec<String> {
    let key = "builds.registries";
    let hosts = reader.list(key);
    for text in &hosts {
        let host = |text: &str| text.parse::<Host>().is_ok();
        let with_port = || {
            text.rsplit_once(':')
                .is_some_and(|(name, port)| host(name) && port.parse::<u16>().is_ok_and(|port| port > 0))
        };
        if !host(text) && !with_port() {
            reader.refuse(key, format!("`{text}` is neither a host name or address nor one with a port"));
        }
    }
    hosts
}

/// `sessions.ports`: words and numbers.
pub(super) fn ports(reader: &mut Reader) -> SessionPorts {
    let key = "sessions.ports";
    let (mut all, mut web, mut ports) = (false, false, BTreeSet::new());
    let items = reader.items(key);
    if items.is_empty() {
        reader.refuse(key, "the list is empty; `sessions.network` closes the network");
    }
    for item in items {
        let number = match &item {
            Value::String(text) if text == ALL => {
                all = true;
                continue;
            }
            Value::String(text) if text == WEB => {
                web = true;
                continue;
            }
            Value::String(text) => text.parse().ok(),
            Value::Integer(number) => u16::try_from(*number).ok(),
            _ => None,
        };
        match number {
            Some(port) if port > 0 => {
                ports.insert(port);
            }
            _ => reader.refuse(key, format!("{item} is neither a port nor \"{WEB}\" nor \"{ALL}\"")),
        }
    }
    if all { SessionPorts::All } else { SessionPorts::Listed { web, ports } }
}

#[cfg(test)]
mod tests {
    use super::super::{Layers, Settings};
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let mut layers = Layers::new();
        layers.text(text, "stead.toml");
        layers.settings().map_err(|errors| errors.0.join("\n"))
    }

    #[test]
    fn a_restricted_network_has_names_and_no_other_has() {
        let settings = read("").unwrap();
        assert_eq!(settings.sessions.network, NetworkPolicy::Enabled);
        assert_eq!(settings.builds.network, BuildNetworkPolicy::Registries);
        assert_eq!(settings.builds.network_limit, BuildNetworkPolicy::Enabled);
        let text = "network = \"restricted\"\nhosts = [\"B.example\", \"a.example\"]";
        let settings = read(&format!("[sessions]\n{text}\n[builds]\n{text}\nnetwork_limit = \"registries\"")).unwrap();
        assert_eq!(settings.sessions.network.to_string(), "restricted a.example b.example");
        assert_eq!(settings.builds.network.to_string(), "restricted a.example b.example");
        assert_eq!(settings.builds.network_limit, BuildNetworkPolicy::Registries);
        let limit = read("[builds]\nnetwork_limit = \"restricted a.example\"").unwrap().builds.network_limit;
        assert_eq!(limit.to_string(), "restricted a.example");
        for (text, expected) in [
            ("[sessions]\nnetwork = \"restricted\"", "sessions.hosts (default): a restricted network needs"),
            ("[sessions]\nhosts = [\"a.example\"]", "sessions.hosts (stead.toml): names count only where"),
            (
                "[sessions]\nnetwork = \"restricted\"\nhosts = [\"*.example\"]",
                "sessions.hosts (stead.toml): `*.example` is not",
            ),
            ("[sessions]\nnetwork = \"registries\"", "sessions.network (stead.toml): `registries` is none of"),
            ("[builds]\nnetwork = \"restricted\"", "builds.hosts (default): a restricted"),
            ("[builds]\nnetwork = \"restricted a.example\"", "builds.network (stead.toml): `restricted a.example`"),
            ("[builds]\nnetwork = \"open\"", "builds.network (stead.toml): `open` is none of \"registries\""),
            ("[builds]\nhosts = [\"a.example\"]", "builds.hosts (stead.toml): names count only where"),
            ("[builds]\nnetwork_limit = \"some\"", "builds.network_limit (stead.toml): `some` is none of"),
            ("[builds]\nregistries = [\"http://a.example\"]", "builds.registries (stead.toml): `http://a.example`"),
            ("[builds]\nregistries = [\"a.example:0\"]", "builds.registries (stead.toml): `a.example:0`"),
        ] {
            let errors = read(text).unwrap_err();
            assert!(errors.contains(expected), "missing: {expected}\nin: {errors}");
        }
        let named = read("[builds]\nregistries = [\"a.example\", \"b.example:8443\", \"10.0.0.1\"]").unwrap();
        assert_eq!(named.builds.registries.len(), 3);
    }

    #[test]
    fn ports_are_words_and_numbers_in_files_and_variables() {
        let web = PortRule::from_iter([80, 443]);
        let rule = |text: &str| read(&format!("[sessions]\nports = {text}")).map(|read| read.sessions.ports.rule(&web));
        assert_eq!(read("").unwrap().sessions.ports.rule(&web), web);
        assert_eq!(rule("[\"all\"]").unwrap(), PortRule::Any);
        assert_eq!(rule("[\"web\", 5432]").unwrap(), PortRule::from_iter([80, 443, 5432]));
        assert_eq!(rule("[443, \"22\"]").unwrap(), PortRule::from_iter([22, 443]));
        let mut layers = Layers::new();
        let variable = ("STEAD__SESSIONS__PORTS".to_owned(), "web, 22".to_owned());
        layers.environment([variable].into_iter());
        assert_eq!(layers.settings().unwrap().sessions.ports.rule(&web), PortRule::from_iter([22, 80, 443]));
        for wrong in ["[]", "[0]", "[65536]", "[\"ssh\"]", "[[22]]", "\"all\""] {
            let errors = rule(wrong).unwrap_err();
            assert!(errors.contains("sessions.ports (stead.toml)"), "{wrong}: {errors}");
        }
    }
}
