//! The audit log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One change that somebody asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// `audit_…`; ids ascend as the entries were made.
    pub id: String,
    /// `audit_entry`.
    pub object: String,
    /// When.
    pub created_at: i64,
    /// The workspace of what was changed, `ws_…`.
    pub workspace_id: String,
    /// The key that asked, `key_…`.
    pub key_id: String,
    /// What the key is called; null for a key that the caller may not see.
    pub key_name: Option<String>,
    /// What the answer's `X-Request-Id` and the server's log call the request.
    pub request_id: String,
    /// The route: a method, and a path with the names of its parameters.
    pub action: String,
    /// What was made, changed or removed.
    pub targets: Vec<AuditTarget>,
}

/// One thing that a change concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditTarget {
    /// `agent`, `build`, `environment`, `file`, `key`, `project`, `session`, `turn`, `version` or `workspace`.
    pub kind: String,
    /// Its id; of a build and a version, the project's id, `/` and the number.
    pub id: String,
}

/// The answer of `GET /stead/v1/audit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditList {
    /// The newest first.
    pub entries: Vec<AuditEntry>,
    /// The `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}
