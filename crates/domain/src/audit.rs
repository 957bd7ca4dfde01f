//! Who did what: one entry for each change that somebody asked for, part of the commit that makes the change.

use serde::{Deserialize, Serialize};

use crate::ids::{AuditId, KeyId, WorkspaceId};
use crate::time::Timestamp;

/// Who acts, and in which request: what the rows of a change cannot tell by themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// The workspace of the key.
    pub workspace_id: WorkspaceId,
    /// The key.
    pub key_id: KeyId,
    /// The request's id, as its answer carries it and every log line of it.
    pub request_id: String,
    /// The route: a method and a path with the names of its parameters, such as `POST /v1/environments/{id}/build`.
    pub action: String,
}

/// A change that somebody asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its identity; entries sort by it as they were made.
    pub id: AuditId,
    /// When.
    pub at: Timestamp,
    /// The workspace of what was changed, which an operator need not belong to.
    pub workspace_id: WorkspaceId,
    /// The key that asked.
    pub key_id: KeyId,
    /// The request's id.
    pub request_id: String,
    /// The route.
    pub action: String,
    /// What was made, changed or removed.
    pub targets: Vec<AuditTarget>,
}

/// One thing that a change concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditTarget {
    /// The noun, such as `project`.
    pub kind: String,
    /// Its id; of a build, its project's id and its number.
    pub id: String,
}
