//! The body of `POST /v1/responses` (UHP §7.1).

use std::collections::HashMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use stead_domain::network::NetworkPolicy;
use stead_domain::{AgentId, Error, Result, TurnId};
use stead_engine::{ProjectChoice, VersionChoice};

use super::ids;
use super::network;
use super::nullable::Field;

/// A task as a client asks for it. Unknown fields are ignored, and named in the answer.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct CreateResponse {
    /// The work: a text, or items. `input::read` makes sense of it.
    #[schemars(schema_with = "input")]
    pub input: Value,
    /// A model by name.
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    #[schemars(schema_with = "metadata")]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    environment: Field<String>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    background: Option<bool>,
    #[serde(default)]
    previous_response_id: Option<String>,
    /// Extra guidance for this task only.
    #[serde(default)]
    pub instructions: Option<String>,
    #[serde(default)]
    store: Option<bool>,
    #[serde(default, rename = "max_output_tokens")]
    _max_output_tokens: Option<u64>,
    #[serde(default, rename = "max_step")]
    _max_step: Option<u32>,
    #[serde(default)]
    timeout_seconds: Option<u32>,
}

fn input(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "object" } }] })
}

fn metadata(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["object", "null"],
        "properties": {
            "harness_id": { "type": ["string", "null"] },
            "environment": { "type": ["string", "null"] },
            "stead_version": { "type": ["string", "integer", "null"] },
            "stead_network": { "type": ["string", "object", "null"] },
        },
    })
}

/// How the caller wants to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// When the task has ended.
    Blocking,
    /// As soon as it is accepted.
    Background,
    /// With every event.
    Streaming,
}

/// Fields that the server acts on for the harness `shell`, the only one there is. What is sent beside them is named in
/// `metadata.ignored_fields` (UHP §7.1), `tools` and `include` among it. `model` counts as acted on: a model that is not
/// `shell` is reported as substituted.
const ACTED_ON: [&str; 9] = [
    "input",
    "model",
    "metadata",
    "environment",
    "stream",
    "background",
    "previous_response_id",
    "store",
    "timeout_seconds",
];

/// Names that an answer repeats, at most this many and none longer than [`NAME`].
const NAMES: usize = 64;
/// The longest field name that an answer repeats, in bytes.
const NAME: usize = 128;

/// The names of the fields of `body` that nobody will act on, in alphabetical order. An explicit `null` was not sent.
pub fn ignored_fields(body: &[u8]) -> Vec<String> {
    let fields: HashMap<String, &RawValue> = serde_json::from_slice(body).unwrap_or_default();
    let mut names: Vec<String> = fields
        .into_iter()
        .filter(|(name, value)| value.get() != "null" && !ACTED_ON.contains(&name.as_str()) && name.len() <= NAME)
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    names.truncate(NAMES);
    names
}

impl CreateResponse {
    /// How to answer; a stream may be asked for in background, too.
    pub fn delivery(&self) -> Delivery {
        match (self.stream.unwrap_or(false), self.background.unwrap_or(false)) {
            (true, _) => Delivery::Streaming,
            (false, true) => Delivery::Background,
            (false, false) => Delivery::Blocking,
        }
    }

    /// Whether the record is kept for later reads.
    pub fn store(&self) -> bool {
        self.store.unwrap_or(true)
    }

    /// The wall-clock budget.
    pub fn time_limit(&self) -> Result<Option<Duration>> {
        match self.timeout_seconds {
            Some(0) => Err(Error::invalid("timeout_seconds", "`timeout_seconds` is at least 1")),
            seconds => Ok(seconds.map(|seconds| Duration::from_secs(u64::from(seconds)))),
        }
    }

    /// The response that is continued.
    pub fn previous(&self) -> Result<Option<TurnId>> {
        let named = self.previous_response_id.as_deref();
        named.map(|id| ids::parse_response(id).map_err(|error| error.at("previous_response_id"))).transpose()
    }

    /// The harness that is named.
    pub fn harness(&self) -> Result<Option<AgentId>> {
        let named = self.text("harness_id")?;
        named.map(|id| ids::parse_harness(id).map_err(|error| error.at("metadata.harness_id"))).transpose()
    }

    /// The environment that is named: in `metadata`, or, as the chapter's first text has it, beside `input`. Both may be there
    /// when they agree. Where one is an empty text, and the other does not name one either, the task reads nothing; `null` is as good
    /// as absent, as many clients write every field that they know.
    pub fn environment(&self) -> Result<ProjectChoice> {
        let inner = self.text("environment")?;
        let outer = match &self.environment {
            Field::Given(text) => Some(text.as_str()).filter(|text| !text.is_empty()),
            Field::Null | Field::Absent => None,
        };
        let (id, param) = match (inner, outer) {
            (Some(inner), Some(outer)) if inner != outer => {
                let message = "`environment` and `metadata.environment` name different environments";
                return Err(Error::invalid("environment", message));
            }
            (Some(inner), _) => (inner, "metadata.environment"),
            (None, Some(outer)) => (outer, "environment"),
            (None, None) => {
                let inside = self.metadata.as_ref().and_then(|metadata| metadata.get("environment"));
                let said = inside.is_some_and(Value::is_string) || matches!(self.environment, Field::Given(_));
                return Ok(if said { ProjectChoice::Nothing } else { ProjectChoice::Usual });
            }
        };
        ids::parse_environment(id).map(ProjectChoice::Named).map_err(|error| error.at(param))
    }

    /// A refusal of the environment, at the field that named it.
    pub fn refused(&self, error: Error) -> Error {
        let inside = matches!(self.text("environment"), Ok(Some(_)));
        if error.param.as_deref() != Some("turn.project") || inside || !matches!(self.environment, Field::Given(_)) {
            return error;
        }
        error.at("environment")
    }

    /// The version of the environment that the session shall read from now on.
    pub fn version(&self) -> Result<Option<VersionChoice>> {
        let refused =
            || Error::invalid("metadata.stead_version", "`stead_version` is `active` or the number of a version");
        match self.metadata.as_ref().and_then(|metadata| metadata.get("stead_version")) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text == "active" => Ok(Some(VersionChoice::Active)),
            Some(Value::String(text)) => {
                let number = ids::parse_version(text).map_err(|_| refused())?;
                Ok(Some(VersionChoice::Number(number)))
            }
            Some(Value::Number(number)) => {
                let number = number.as_u64().and_then(|number| u32::try_from(number).ok());
                let number = number.filter(|number| *number > 0).ok_or_else(refused)?;
                Ok(Some(VersionChoice::Number(number)))
            }
            Some(_) => Err(refused()),
        }
    }

    /// What the task may reach, when it says so.
    pub fn network(&self) -> Result<Option<NetworkPolicy>> {
        let said = self.metadata.as_ref().and_then(|metadata| metadata.get("stead_network"));
        let said = said.filter(|value| !value.is_null());
        said.map(|value| network::read(value, "metadata.stead_network")).transpose()
    }

    /// A text of `metadata`; empty is as good as absent.
    fn text(&self, name: &str) -> Result<Option<&str>> {
        match self.metadata.as_ref().and_then(|metadata| metadata.get(name)) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(_) => Err(Error::invalid(format!("metadata.{name}"), format!("`metadata.{name}` is a string"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> CreateResponse {
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn what_nobody_acts_on_is_named_and_nothing_else() {
        let body = json!({
            "input": "x", "tools": [], "include": ["a"], "max_step": 3, "temperature": 1, "stream": true, "user": null,
            "instructions": "be brief", "metadata": {"harness_id": "h"}
        });
        let names = ignored_fields(body.to_string().as_bytes());
        assert_eq!(names, ["include", "instructions", "max_step", "temperature", "tools"]);
        assert_eq!(ignored_fields(br#"{"input":"x","model":"shell","tools":null}"#), [""; 0]);
    }

    #[test]
    fn an_environment_may_be_named_in_two_places_that_agree() {
        let (one, two) = ("henv_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00", "henv_018f3c2a7b4c7d3e9f6a5b4c3d2e1f01");
        let named = ProjectChoice::Named(ids::parse_environment(one).unwrap());
        for (more, found) in [
            (json!({"environment": null, "metadata": {"environment": one}}), named),
            (json!({"environment": one, "metadata": {"environment": null}}), named),
            (json!({"environment": one, "metadata": {"environment": one}}), named),
            (json!({"environment": one}), named),
            (json!({"environment": ""}), ProjectChoice::Nothing),
            (json!({"environment": null}), ProjectChoice::Usual),
            (json!({"metadata": {"environment": ""}}), ProjectChoice::Nothing),
            (json!({"metadata": {"environment": null}}), ProjectChoice::Usual),
            (json!({"metadata": {}}), ProjectChoice::Usual),
            (json!({}), ProjectChoice::Usual),
        ] {
            let mut body = more;
            body["input"] = json!("x");
            assert_eq!(read(body.clone()).environment().unwrap(), found, "{body}");
        }
        let both = read(json!({"input": "x", "environment": one, "metadata": {"environment": two}}));
        assert_eq!(both.environment().unwrap_err().param.as_deref(), Some("environment"));
        let made_up = read(json!({"input": "x", "environment": "nonsense"}));
        assert_eq!(made_up.environment().unwrap_err().code, stead_domain::Code::ProjectNotFound);
        // The field that the refusal of the core is put at.
        for (body, param) in [
            (json!({"environment": "a"}), "environment"),
            (json!({"metadata": {"environment": "a"}}), "turn.project"),
            (json!({"environment": "a", "metadata": {"environment": "a"}}), "turn.project"),
            (json!({"previous_response_id": "r"}), "turn.project"),
        ] {
            let mut body = body;
            body["input"] = json!("x");
            let refused = Error::new(stead_domain::Code::ProjectNotFound, "none").at("turn.project");
            assert_eq!(read(body).refused(refused).param.as_deref(), Some(param));
        }
    }

    #[test]
    fn a_version_is_active_or_a_number() {
        let version = |value: Value| read(json!({"input": "x", "metadata": {"stead_version": value}})).version();
        assert!(matches!(version(json!("active")), Ok(Some(VersionChoice::Active))));
        assert!(matches!(version(json!(3)), Ok(Some(VersionChoice::Number(3)))));
        assert!(matches!(version(json!("3")), Ok(Some(VersionChoice::Number(3)))));
        for wrong in [json!(0), json!(-1), json!("latest"), json!([]), json!(1.5)] {
            assert!(version(wrong).is_err());
        }
    }
}
