//! Configured harnesses (UHP §6).

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_domain::agent::Agent;
use stead_domain::{Error, ProjectId, Result};
use stead_engine::AgentText;

use super::ids;
use super::network::{self, Network};
use super::nullable::Field;

/// A harness as clients read it: camelCase, milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Harness {
    id: String,
    object: &'static str,
    name: String,
    base: &'static str,
    base_label: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_model: Option<String>,
    system_prompt: String,
    mcp_servers: [Value; 0],
    skills: [Value; 0],
    plugins: [Value; 0],
    /// Empty when there is none.
    environment: String,
    disabled_tools: Vec<String>,
    max_step: Option<u32>,
    timeout_seconds: Option<u64>,
    /// An addition: what its tasks may reach; the deployment's when there is none.
    #[serde(rename = "stead_network")]
    network: Option<Network>,
    created_at: i64,
}

impl From<Agent> for Harness {
    fn from(agent: Agent) -> Self {
        Self {
            id: ids::harness(agent.id),
            object: "harness",
            name: agent.name,
            base: agent.harness.as_str(),
            base_label: agent.harness.label(),
            default_model: agent.default_model,
            system_prompt: agent.instructions,
            mcp_servers: [],
            skills: [],
            plugins: [],
            environment: agent.project_id.map(|id| id.to_string()).unwrap_or_default(),
            disabled_tools: agent.disabled_tools,
            max_step: agent.max_step,
            timeout_seconds: agent.time_limit.map(|limit| limit.as_secs()),
            network: agent.network.as_ref().map(Network::from),
            created_at: agent.created_at.as_millis(),
        }
    }
}

/// The answer of `GET /v1/harnesses`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HarnessList {
    /// Oldest first.
    pub harnesses: Vec<Harness>,
}

/// A harness as `GET /v1/environments/{id}/harnesses` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HarnessName {
    id: String,
    name: String,
    base: &'static str,
}

impl From<Agent> for HarnessName {
    fn from(agent: Agent) -> Self {
        Self { id: ids::harness(agent.id), name: agent.name, base: agent.harness.as_str() }
    }
}

/// The body of POST and PUT. Requests are snake_case; the camelCase of answers is read as well, so that a client can send
/// back what it read. An absent field keeps what is there.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HarnessWrite {
    base: Option<String>,
    name: Option<String>,
    #[serde(alias = "defaultModel")]
    default_model: Field<String>,
    #[serde(alias = "systemPrompt")]
    system_prompt: Option<String>,
    #[serde(alias = "mcpServers")]
    mcp_servers: Option<Vec<Value>>,
    skills: Option<Vec<Value>>,
    plugins: Option<Vec<Value>>,
    environment: Field<String>,
    #[serde(alias = "disabledTools")]
    disabled_tools: Option<Vec<String>>,
    #[serde(alias = "maxStep")]
    max_step: Field<u32>,
    #[serde(alias = "timeoutSeconds")]
    timeout_seconds: Field<u32>,
    #[schemars(schema_with = "network::schema")]
    stead_network: Field<Value>,
}

impl HarnessWrite {
    /// Refuses by name what is not served, and budgets of nothing. This comes before anything is looked up.
    pub fn check(&self) -> Result<()> {
        for (param, list) in [("mcp_servers", &self.mcp_servers), ("skills", &self.skills), ("plugins", &self.plugins)]
        {
            if list.as_ref().is_some_and(|list| !list.is_empty()) {
                return Err(Error::unsupported(param, format!("this server does not serve `{param}` of a harness")));
            }
        }
        if self.max_step == Field::Given(0) {
            return Err(Error::invalid("max_step", "`max_step` is at least 1"));
        }
        if self.timeout_seconds == Field::Given(0) {
            return Err(Error::invalid("timeout_seconds", "`timeout_seconds` is at least 1"));
        }
        Ok(())
    }

    /// What it says in the domain's words. An environment that cannot exist is refused like one that does not.
    pub fn into_text(self) -> Result<AgentText> {
        let not_empty = |text: Option<String>| text.filter(|text| !text.is_empty());
        Ok(AgentText {
            name: self.name,
            harness: self.base,
            default_model: self.default_model.map(not_empty),
            instructions: self.system_prompt,
            project_id: self.environment.map(|named| environment(not_empty(named))).transpose()?,
            disabled_tools: self.disabled_tools,
            max_step: self.max_step.map(|rounds| rounds),
            time_limit: self
                .timeout_seconds
                .map(|seconds| seconds.map(|seconds| Duration::from_secs(u64::from(seconds)))),
            network: self
                .stead_network
                .map(|network| network.map(|value| network::read(&value, "stead_network")).transpose())
                .transpose()?,
        })
    }
}

fn environment(named: Option<String>) -> Result<Option<ProjectId>> {
    named.map(|id| ids::parse_environment(&id).map_err(|error| error.at("environment"))).transpose()
}
