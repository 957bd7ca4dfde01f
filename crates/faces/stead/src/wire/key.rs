//! Keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of `POST /stead/v1/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyCreate {
    /// A label for people.
    pub name: String,
    /// What the key may do: `read`, `run`, `write`, `admin`, `operator`. Without it: `read`, `run` and `write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbs: Option<Vec<String>>,
    /// The workspace that the key acts in, by id or name. Without it: the caller's own. Another needs an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

/// A key, never its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Key {
    /// `key_…`.
    pub id: String,
    /// `key`.
    pub object: String,
    /// The workspace it acts in, `ws_…`.
    pub workspace_id: String,
    /// A label for people.
    pub name: String,
    /// What it may do.
    pub verbs: Vec<String>,
    /// When it was made.
    pub created_at: i64,
    /// When it was revoked.
    pub revoked_at: Option<i64>,
}

/// The answer of `POST /stead/v1/keys`: the only time that the secret is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyCreated {
    /// The key.
    #[serde(flatten)]
    pub key: Key,
    /// What a client sends as its bearer token. It is not stored and cannot be shown again.
    pub secret: String,
}

impl std::fmt::Debug for KeyCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyCreated").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The answer of `GET /stead/v1/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyList {
    /// Every key of one workspace, revoked ones included.
    pub keys: Vec<Key>,
}
