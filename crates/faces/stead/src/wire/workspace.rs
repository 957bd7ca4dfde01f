//! Workspaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of `POST /stead/v1/workspaces`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceCreate {
    /// What people call it; no other workspace of the server has that name.
    pub name: String,
}

/// A workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Workspace {
    /// `ws_…`.
    pub id: String,
    /// `workspace`.
    pub object: String,
    /// What people call it.
    pub name: String,
    /// When it was made.
    pub created_at: i64,
    /// Whether it is the one that the key of the request acts in.
    pub current: bool,
}

/// The answer of `GET /stead/v1/workspaces`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceList {
    /// Every workspace for an operator, oldest first; the caller's own for everybody else.
    pub workspaces: Vec<Workspace>,
}
