//! Sessions and their turns (UHP §9).

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use stead_domain::Timestamp;
use stead_domain::item::Item;
use stead_domain::session::Session as Row;
use stead_engine::TurnView;

use super::file::File;
use super::{ids, response};

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Session {
    id: String,
    object: &'static str,
    harness_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<String>,
    title: String,
    /// The status of its latest response.
    status: &'static str,
    container_id: String,
    created_at: i64,
    updated_at: i64,
}

impl From<Row> for Session {
    fn from(row: Row) -> Self {
        Self {
            id: row.id.to_string(),
            object: "session",
            harness_id: ids::harness(row.agent_id),
            environment: row.project_id.map(|id| id.to_string()),
            title: row.title,
            status: response::status(row.latest_state),
            container_id: ids::container(row.id),
            created_at: row.created_at.as_seconds(),
            updated_at: row.updated_at.as_seconds(),
        }
    }
}

/// The answer of `GET /v1/sessions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionList {
    /// Newest first.
    pub sessions: Vec<Session>,
    /// Where the next page begins; `null` on the last.
    pub next_cursor: Option<String>,
}

/// The answer of a session's cancel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionStatus {
    id: String,
    status: &'static str,
}

impl From<Row> for SessionStatus {
    fn from(row: Row) -> Self {
        Self { id: row.id.to_string(), status: response::status(row.latest_state) }
    }
}

/// One turn of a session's history.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TurnItem {
    id: String,
    status: &'static str,
    user: String,
    assistant: String,
    tools: [Value; 0],
    files: Vec<File>,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<String>,
    /// The version of the environment that the turn read.
    #[serde(skip_serializing_if = "Option::is_none")]
    environment_version: Option<u32>,
    created_at: i64,
    finished_at: Option<i64>,
}

impl From<TurnView> for TurnItem {
    fn from(view: TurnView) -> Self {
        let texts: Vec<&str> = view.turn.outcome.items.iter().map(Item::text).collect();
        Self {
            id: ids::response(view.turn.id),
            status: response::status(view.turn.state),
            assistant: texts.join("\n"),
            user: view.turn.input.text,
            tools: [],
            files: view.artifacts.iter().map(File::from).collect(),
            environment: view.turn.reads.map(|pin| pin.project_id.to_string()),
            environment_version: view.turn.reads.map(|pin| pin.version),
            created_at: view.turn.created_at.as_seconds(),
            finished_at: view.turn.finished_at.map(Timestamp::as_seconds),
        }
    }
}

/// The answer of `GET /v1/sessions/{id}/turns`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TurnList {
    /// Oldest first.
    pub turns: Vec<TurnItem>,
}
