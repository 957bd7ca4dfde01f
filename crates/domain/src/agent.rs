//! Saved configurations of harnesses.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, ProjectId, WorkspaceId};
use crate::network::NetworkPolicy;
use crate::time::Timestamp;

/// The program that runs a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Harness {
    /// The turn's input is a bash script; its output is the message.
    Shell,
}

impl Harness {
    /// Every harness that can be configured, in the order in which they are offered.
    pub const ALL: [Harness; 1] = [Harness::Shell];

    /// The name that configurations use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Harness::Shell => "shell",
        }
    }

    /// The name for people.
    pub const fn label(self) -> &'static str {
        match self {
            Harness::Shell => "Shell",
        }
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|harness| harness.as_str() == text)
    }

    /// What the harness calls itself where a protocol wants a model's name and no model is involved.
    pub const fn model(self) -> &'static str {
        match self {
            Harness::Shell => "shell",
        }
    }
}

/// A saved configuration: harness, instructions, budgets and the project its turns read (UHP: a configured harness).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its identity.
    pub id: AgentId,
    /// Its tenant.
    pub workspace_id: WorkspaceId,
    /// A label for people.
    pub name: String,
    /// What runs its turns; never changes.
    pub harness: Harness,
    /// Standing guidance for every turn.
    pub instructions: String,
    /// The model its turns ask for, when the harness uses one.
    pub default_model: Option<String>,
    /// The project its turns read unless they name another. Kept when that project is deleted.
    pub project_id: Option<ProjectId>,
    /// Tools that its turns must not use.
    pub disabled_tools: Vec<String>,
    /// Budget of tool-call rounds per turn.
    pub max_step: Option<u32>,
    /// Wall-clock budget per turn.
    pub time_limit: Option<Duration>,
    /// What its turns may reach; absent for what the deployment allows.
    pub network: Option<NetworkPolicy>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was deleted; its sessions stay.
    pub deleted_at: Option<Timestamp>,
    /// Row version for optimistic concurrency.
    pub row_version: i64,
}

impl Agent {
    /// What is configured and has no effect with this harness, by field: a shell runs what it is given, without guidance, tools or
    /// steps. Each turn says so, since nothing may be dropped in silence.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let Harness::Shell = self.harness;
        [
            ("agent.instructions", !self.instructions.is_empty()),
            ("agent.disabled_tools", !self.disabled_tools.is_empty()),
            ("agent.max_step", self.max_step.is_some()),
        ]
        .into_iter()
        .filter_map(|(field, configured)| configured.then_some(field))
        .collect()
    }
}
