//! Builds.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer header that names the offset, in bytes of the raw log, at which a log's body begins.
pub const LOG_OFFSET: &str = "x-stead-offset";

/// A build in the core's own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Build {
    /// The project, `henv_…`.
    pub id: String,
    /// `stead.build`.
    pub object: String,
    /// The number that the version gets.
    pub version: u32,
    /// `waiting`, `running`, `ready` or `failed`.
    pub state: String,
    /// What it is busy with; empty once it has ended.
    pub stage: String,
    /// Whether it reuses nothing of earlier builds.
    pub fresh: bool,
    /// When it was admitted.
    pub started_at: i64,
    /// When it ended.
    pub finished_at: Option<i64>,
    /// When the files of its version were removed; nothing can read it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<i64>,
    /// Why it failed.
    pub error: Option<String>,
    /// The sort of reason: `step`, `manifest`, `limit`, `cancelled`, `interrupted`, `internal`.
    pub failure_kind: Option<String>,
    /// Which limit, of the sort `limit`: `time`, `memory`, `disk`, `processes`, `output`, `quota`.
    #[serde(default)]
    pub failure_limit: Option<String>,
    /// Hosts that a step was refused and that the project's build network could name.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub refused_hosts: BTreeSet<String>,
}

impl Build {
    /// Whether nothing can happen to it any more.
    pub fn is_ended(&self) -> bool {
        matches!(self.state.as_str(), "ready" | "failed")
    }
}
