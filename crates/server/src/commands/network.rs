//! Networks on the command line: of the sessions of `stead run`, and of a project's builds.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::client::Failure;

const RESTRICTED: &str = "restricted";

/// What a command may reach.
#[derive(Debug, Args)]
pub(crate) struct SessionNetwork {
    /// Let the command reach no more than this: at most what its harness and the server allow
    #[arg(long, value_enum, value_name = "disabled|restricted|enabled", hide_possible_values = true)]
    network: Option<SessionMode>,
    /// A host that a restricted network reaches, by its exact name; give it once for each
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
}

/// What a project's builds may reach.
#[derive(Debug, Args)]
pub(crate) struct BuildNetwork {
    /// What builds may reach: registries, restricted (and the hosts of --build-host), enabled, disabled, or default for what
    /// the server has for projects that say nothing
    #[arg(
        long,
        value_enum,
        value_name = "default|disabled|registries|restricted|enabled",
        hide_possible_values = true
    )]
    build_network: Option<BuildMode>,
    /// A host that builds reach besides registries, by its exact name; give it once for each
    #[arg(long, value_name = "NAME")]
    build_host: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SessionMode {
    Disabled,
    Restricted,
    Enabled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BuildMode {
    Default,
    Disabled,
    Registries,
    Restricted,
    Enabled,
}

impl SessionNetwork {
    /// The network as a request has it; nothing when nothing is said.
    pub(crate) fn asked(&self) -> Result<Option<Value>, Failure> {
        let word = self.network.map(|mode| match mode {
            SessionMode::Disabled => "disabled",
            SessionMode::Restricted => RESTRICTED,
            SessionMode::Enabled => "enabled",
        });
        asked(word, &self.allow_host, "--network", "--allow-host")
    }
}

impl BuildNetwork {
    /// Whether nothing is said.
    pub(crate) fn is_empty(&self) -> bool {
        self.build_network.is_none() && self.build_host.is_empty()
    }

    /// The network as a request has it; nothing when nothing is said, `null` for the server's own.
    pub(crate) fn asked(&self) -> Result<Option<Value>, Failure> {
        let word = self.build_network.map(|mode| match mode {
            BuildMode::Default => "default",
            BuildMode::Disabled => "disabled",
            BuildMode::Registries => "registries",
            BuildMode::Restricted => RESTRICTED,
            BuildMode::Enabled => "enabled",
        });
        let asked = asked(word, &self.build_host, "--build-network", "--build-host")?;
        Ok(asked.map(|value| if value == "default" { Value::Null } else { value }))
    }
}

/// Names alone mean the one sort that has any.
fn asked(word: Option<&str>, hosts: &[String], option: &str, names: &str) -> Result<Option<Value>, Failure> {
    match word.unwrap_or(RESTRICTED) {
        _ if word.is_none() && hosts.is_empty() => Ok(None),
        RESTRICTED if hosts.is_empty() => {
            Err(Failure::usage(format!("a restricted network needs at least one host: {names} NAME")))
        }
        RESTRICTED => Ok(Some(json!({ "mode": RESTRICTED, "hosts": hosts }))),
        word if hosts.is_empty() => Ok(Some(word.into())),
        word => Err(Failure::usage(format!("{names} goes with {option} {RESTRICTED}, not with {option} {word}"))),
    }
}

/// A network of an answer, for people to read.
pub(crate) fn shown(network: &Value) -> String {
    let hosts: Vec<&str> = network["hosts"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match network.as_str().or_else(|| network["mode"].as_str()) {
        Some(word) if hosts.is_empty() => word.to_owned(),
        Some(word) => format!("{word}: {}", hosts.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_with_a_restricted_network_alone() {
        let of = |network, hosts: &[&str]| SessionNetwork {
            network,
            allow_host: hosts.iter().map(|host| (*host).to_owned()).collect(),
        };
        let restricted = json!({ "mode": "restricted", "hosts": ["a.example"] });
        assert_eq!(of(None, &[]).asked().unwrap(), None);
        assert_eq!(of(Some(SessionMode::Disabled), &[]).asked().unwrap(), Some(json!("disabled")));
        assert_eq!(of(None, &["a.example"]).asked().unwrap(), Some(restricted.clone()));
        assert_eq!(of(Some(SessionMode::Restricted), &["a.example"]).asked().unwrap(), Some(restricted.clone()));
        assert!(of(Some(SessionMode::Restricted), &[]).asked().is_err());
        assert!(of(Some(SessionMode::Enabled), &["a.example"]).asked().is_err());
        let builds = |build_network| BuildNetwork { build_network, build_host: Vec::new() };
        assert_eq!(builds(Some(BuildMode::Default)).asked().unwrap(), Some(Value::Null));
        assert_eq!(builds(Some(BuildMode::Registries)).asked().unwrap(), Some(json!("registries")));
        assert!(builds(None).is_empty());
        assert_eq!((shown(&restricted).as_str(), shown(&Value::Null).as_str()), ("restricted: a.example", ""));
    }
}
