//! Networks, an addition to the protocol: `stead_network` of harnesses and tasks, `stead_build_network` of environments.
//!
//! A network is a word, or an object of the word and the host names that go with `restricted`:
//!
//! ```json
//! "enabled"
//! {"mode": "restricted", "hosts": ["api.example", "files.example"]}
//! ```

use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_domain::network::{AllowedHosts, BuildNetworkPolicy, NetworkMode, NetworkPolicy};
use stead_domain::{Error, Result};

const RESTRICTED: &str = NetworkMode::Restricted.as_str();

/// A network as answers have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Network {
    /// `disabled`, `enabled` or `registries`.
    Word(&'static str),
    /// Exact names.
    Restricted {
        /// Always `restricted`.
        mode: &'static str,
        /// The names, sorted.
        hosts: Vec<String>,
    },
}

impl Network {
    fn restricted(hosts: &AllowedHosts) -> Self {
        Self::Restricted { mode: RESTRICTED, hosts: hosts.iter().map(str::to_owned).collect() }
    }
}

impl From<&NetworkPolicy> for Network {
    fn from(policy: &NetworkPolicy) -> Self {
        match policy {
            NetworkPolicy::Restricted(hosts) => Self::restricted(hosts),
            policy => Self::Word(policy.mode().as_str()),
        }
    }
}

impl From<&BuildNetworkPolicy> for Network {
    fn from(policy: &BuildNetworkPolicy) -> Self {
        match policy {
            BuildNetworkPolicy::Restricted(hosts) => Self::restricted(hosts),
            policy => Self::Word(policy.as_str()),
        }
    }
}

/// The schema of a network as requests have it.
pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": ["string", "null"] },
            {
                "type": "object",
                "properties": {
                    "mode": { "type": "string" },
                    "hosts": { "type": ["array", "null"], "items": { "type": "string" } },
                },
                "required": ["mode"],
                "additionalProperties": false,
            },
        ],
    })
}

/// What an object may have.
const FIELDS: [&str; 2] = ["mode", "hosts"];

#[derive(Debug, Deserialize, JsonSchema)]
struct Object {
    mode: String,
    #[serde(default)]
    hosts: Option<Vec<String>>,
}

/// Reads the network of a session; a refusal names `param`.
pub fn read(value: &Value, param: &str) -> Result<NetworkPolicy> {
    policy(value, param, NetworkPolicy::Restricted)
}

/// Reads the network of builds; a refusal names `param`.
pub fn read_of_builds(value: &Value, param: &str) -> Result<BuildNetworkPolicy> {
    policy(value, param, BuildNetworkPolicy::Restricted)
}

fn policy<P>(value: &Value, param: &str, restricted: fn(AllowedHosts) -> P) -> Result<P>
where
    P: FromStr<Err = Error>,
{
    let shown = |text: &str| text.chars().take(40).flat_map(char::escape_default).collect::<String>();
    if let Some(name) = value.as_object().and_then(|object| object.keys().find(|key| !FIELDS.contains(&key.as_str()))) {
        let message = format!("`{param}` has the fields `mode` and `hosts`, and not `{}`", shown(name));
        return Err(Error::invalid(param, message));
    }
    let Object { mode, hosts } = match value {
        Value::String(word) => Object { mode: word.clone(), hosts: None },
        value => Object::deserialize(value).map_err(|_| {
            let message = format!(
                "`{param}` is a word, or an object with the text `mode` and, for `{RESTRICTED}`, the list `hosts`"
            );
            Error::invalid(param, message)
        })?,
    };
    let hosts = hosts.unwrap_or_default();
    if mode == RESTRICTED {
        let hosts = AllowedHosts::parse(hosts.iter().map(String::as_str)).map_err(|error| error.at(param))?;
        return Ok(restricted(hosts));
    }
    if !hosts.is_empty() {
        return Err(Error::invalid(param, format!("`hosts` go with the mode `{RESTRICTED}` and with no other")));
    }
    // The text form of the core has the names behind the word, which this form has not.
    if mode.contains(char::is_whitespace) {
        let message = format!("`{}` is no word; `hosts` go with the mode `{RESTRICTED}` in an object", shown(&mode));
        return Err(Error::invalid(param, message));
    }
    mode.parse().map_err(|error: Error| error.at(param))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_network_reads_back_in_the_form_that_it_is_written_in() {
        for (said, shown) in [
            (json!("enabled"), json!("enabled")),
            (json!({"mode": "disabled"}), json!("disabled")),
            (json!({"mode": "enabled", "hosts": []}), json!("enabled")),
            (
                json!({"mode": "restricted", "hosts": ["B.example", "a.example"]}),
                json!({"mode": "restricted", "hosts": ["a.example", "b.example"]}),
            ),
        ] {
            let policy = read(&said, "x").unwrap();
            assert_eq!(serde_json::to_value(Network::from(&policy)).unwrap(), shown);
            assert_eq!(read(&shown, "x").unwrap(), policy);
            assert_eq!(serde_json::to_value(Network::from(&read_of_builds(&said, "x").unwrap())).unwrap(), shown);
        }
        let registries = read_of_builds(&json!("registries"), "x").unwrap();
        assert_eq!(serde_json::to_value(Network::from(&registries)).unwrap(), json!("registries"));
    }

    #[test]
    fn what_is_no_network_is_refused_by_name() {
        for wrong in [
            json!("registries"),
            json!("restricted"),
            json!("restricted a.example"),
            json!("Enabled"),
            json!(""),
            json!(true),
            json!(["a.example"]),
            json!({"hosts": ["a.example"]}),
            json!({"mode": "restricted"}),
            json!({"mode": "restricted", "hosts": []}),
            json!({"mode": "restricted", "hosts": ["a.example b.example"]}),
            json!({"mode": "restricted", "hosts": ["*.example"]}),
            json!({"mode": "restricted", "hosts": ["10.0.0.1"]}),
            json!({"mode": "restricted", "hosts": "a.example"}),
            json!({"mode": "enabled", "hosts": ["a.example"]}),
            json!({"mode": "enabled", "host": ["a.example"]}),
        ] {
            let error = read(&wrong, "stead_network").unwrap_err();
            assert_eq!(error.param.as_deref(), Some("stead_network"), "{wrong}");
            assert!(wrong == "registries" || read_of_builds(&wrong, "stead_build_network").is_err(), "{wrong}");
        }
        for (wrong, named) in [
            (json!(" disabled"), "` disabled`"),
            (json!("restricted a.example"), "`restricted a.example`"),
            (json!("Enabled"), "`Enabled`"),
            (json!({"mode": "restricted", "hosts": ["a.example"], "ports": [1]}), "`ports`"),
        ] {
            let message = read(&wrong, "x").unwrap_err().message;
            assert!(message.contains(named), "{message}");
            let message = read_of_builds(&wrong, "x").unwrap_err().message;
            assert!(message.contains(named), "{message}");
        }
    }
}
