//! Turns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::output::Exit;

/// A turn in the core's own words: what UHP's response has no field for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// `turn_…`.
    pub id: String,
    /// `stead.turn`.
    pub object: String,
    /// The same turn as UHP spells it, `resp_…`.
    pub response_id: String,
    /// Its session.
    pub session_id: String,
    /// Its session's files, as UHP spells it, `cntr_…`.
    pub container_id: String,
    /// 1, 2, 3, … within the session.
    pub number: i64,
    /// `queued`, `in_progress`, `cancelling`, `completed`, `failed`, `cancelled`, `budget_reached`, `interrupted`.
    pub state: String,
    /// How its command ended.
    pub exit: Option<Exit>,
    /// Why it failed, or which budget it reached.
    pub failure: Option<TurnFailure>,
    /// Limits that something in it ran into, beside the one that ended it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits_hit: Vec<LimitHit>,
    /// The project version that it reads.
    pub reads: Option<Reads>,
    /// What it left in the working directory.
    pub artifacts: Vec<TurnArtifact>,
    /// Files it left that could not be kept.
    pub excess: Vec<ExcessFile>,
    /// Bytes of raw output kept.
    pub output_bytes: u64,
    /// When it was admitted.
    pub created_at: i64,
    /// When its input was given to the harness.
    pub started_at: Option<i64>,
    /// When it ended.
    pub finished_at: Option<i64>,
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnFailure {
    /// `harness`, `interrupted`, `environment` or `limit`.
    pub kind: String,
    /// Of the kind `limit`: `time`, `memory`, `disk`, `processes` or `output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// A safe sentence.
    pub message: String,
}

/// A limit that something in a turn ran into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitHit {
    /// `memory`, `disk` or `processes`.
    pub limit: String,
    /// A safe sentence.
    pub message: String,
}

/// A project version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reads {
    /// The project, `henv_…`.
    pub project: String,
    /// The version.
    pub version: u32,
}

/// A file that a turn left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnArtifact {
    /// `file_…`.
    pub id: String,
    /// Its path relative to the working directory.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// A file that a turn left but that could not be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExcessFile {
    /// Its path relative to the working directory.
    pub path: String,
    /// Why.
    pub reason: String,
}
