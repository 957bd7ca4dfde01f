//! Agents: saved configurations of harnesses.

use std::time::Duration;

use serde_json::json;
use stead_domain::agent::{Agent, Harness};
use stead_domain::changes::Changes;
use stead_domain::key::Caller;
use stead_domain::network::NetworkPolicy;
use stead_domain::{AgentId, Code, Error, ProjectId, Result, WorkspaceId};

use crate::commit::store_failed;
use crate::engine::Engine;

/// What a caller says about an agent; an absent field keeps what is there (or the default, on creation).
#[derive(Debug, Clone, Default)]
pub struct AgentText {
    /// A label for people.
    pub name: Option<String>,
    /// The harness; required on creation, unchangeable later.
    pub harness: Option<String>,
    /// The model its turns ask for.
    pub default_model: Option<Option<String>>,
    /// Standing guidance.
    pub instructions: Option<String>,
    /// The project its turns read.
    pub project_id: Option<Option<ProjectId>>,
    /// Tools its turns must not use.
    pub disabled_tools: Option<Vec<String>>,
    /// Budget of tool-call rounds.
    pub max_step: Option<Option<u32>>,
    /// Wall-clock budget.
    pub time_limit: Option<Option<Duration>>,
    /// What its turns may reach; within what the deployment allows.
    pub network: Option<Option<NetworkPolicy>>,
}

/// The longest instructions, in bytes.
const MAX_INSTRUCTIONS: usize = 256 << 10;

fn not_found() -> Error {
    Error::new(Code::AgentNotFound, "there is no such agent")
}

fn harness(text: Option<&str>) -> Result<Harness> {
    let supported = json!({ "supported": Harness::ALL.map(Harness::as_str) });
    let text = text.ok_or_else(|| {
        Error::invalid("agent.harness", "the base of a harness must be named").detail(supported.clone())
    })?;
    Harness::parse(text).ok_or_else(|| {
        let message = "no such harness is offered here; `detail.supported` lists those that are";
        Error::new(Code::HarnessUnsupported, message).at("agent.harness").detail(supported)
    })
}

impl Engine {
    /// An agent about which nothing was said but its harness.
    pub(crate) fn new_agent(&self, workspace: WorkspaceId, harness: Harness) -> Agent {
        let at = self.now();
        Agent {
            id: AgentId::new(self.ids.as_ref()),
            workspace_id: workspace,
            name: harness.label().to_owned(),
            harness,
            instructions: String::new(),
            default_model: None,
            project_id: None,
            disabled_tools: Vec::new(),
            max_step: None,
            time_limit: None,
            network: None,
            created_at: at,
            updated_at: at,
            deleted_at: None,
            row_version: 1,
        }
    }

    /// Saves a new configuration.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn agent_create(&self, caller: &Caller, text: AgentText) -> Result<Agent> {
        let harness = harness(text.harness.as_deref())?;
        let agent = self.new_agent(caller.workspace_id, harness);
        self.decide(|| async {
            let agent = self.apply_text(caller, agent.clone(), &text).await?;
            Ok((Changes::new().insert(agent.clone()), agent))
        })
        .await
    }

    /// The agents of the caller's workspace, oldest first.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn agent_list(&self, caller: &Caller) -> Result<Vec<Agent>> {
        self.store.agents_list(caller.workspace_id).await.map_err(store_failed)
    }

    /// One agent.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn agent_get(&self, caller: &Caller, id: AgentId) -> Result<Agent> {
        let agent = self.agent_even_deleted(caller, id).await?;
        if agent.deleted_at.is_some() { Err(not_found()) } else { Ok(agent) }
    }

    /// An agent that a session still names, deleted or not.
    pub(crate) async fn agent_even_deleted(&self, caller: &Caller, id: AgentId) -> Result<Agent> {
        let agent = self.store.agent_fetch(caller.workspace_id, id).await.map_err(store_failed)?;
        agent.ok_or_else(not_found)
    }

    /// Replaces the fields that are given. A refused write leaves the agent as it was.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn agent_update(&self, caller: &Caller, id: AgentId, text: AgentText) -> Result<Agent> {
        self.decide(|| async {
            let agent = self.agent_get(caller, id).await?;
            if let Some(base) = text.harness.as_deref()
                && harness(Some(base))? != agent.harness
            {
                return Err(Error::invalid("agent.harness", "the harness of an agent never changes"));
            }
            let agent = self.apply_text(caller, agent, &text).await?;
            Ok((Changes::new().update(agent.clone()), agent))
        })
        .await
    }

    /// Deletes an agent; its sessions stay.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn agent_delete(&self, caller: &Caller, id: AgentId) -> Result<()> {
        self.decide(|| async {
            let mut agent = self.agent_get(caller, id).await?;
            agent.deleted_at = Some(self.now());
            Ok((Changes::new().update(agent), ()))
        })
        .await
    }

    async fn apply_text(&self, caller: &Caller, mut agent: Agent, text: &AgentText) -> Result<Agent> {
        if let Some(name) = &text.name {
            if name.trim().is_empty() || name.len() > 1000 || name.contains('\0') {
                return Err(Error::invalid("name", "`name` must have 1 to 1000 bytes"));
            }
            agent.name.clone_from(name);
        }
        if let Some(instructions) = &text.instructions {
            if instructions.len() > MAX_INSTRUCTIONS || instructions.contains('\0') {
                let message = format!("the instructions must have at most {MAX_INSTRUCTIONS} bytes and no NUL");
                return Err(Error::invalid("agent.instructions", message));
            }
            agent.instructions.clone_from(instructions);
        }
        if let Some(project) = text.project_id {
            if let Some(project) = project {
                self.live_project(caller, project).await.map_err(|error| error.at("agent.project"))?;
            }
            agent.project_id = project;
        }
        if let Some(network) = &text.network {
            if let Some(network) = network {
                self.check_network(network).map_err(|error| error.at("agent.network"))?;
            }
            agent.network.clone_from(network);
        }
        if let Some(model) = &text.default_model {
            agent.default_model.clone_from(model);
        }
        if let Some(tools) = &text.disabled_tools {
            agent.disabled_tools.clone_from(tools);
        }
        agent.max_step = text.max_step.unwrap_or(agent.max_step);
        agent.time_limit = text.time_limit.unwrap_or(agent.time_limit);
        agent.updated_at = self.now();
        Ok(agent)
    }
}
