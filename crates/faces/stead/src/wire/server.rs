//! The server itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer of `GET /stead/v1/server`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// `stead.server`.
    pub object: String,
    /// The version of the program.
    pub version: String,
    /// The machine's name in rows: whose disk holds layers and versions.
    pub node: String,
    /// Where environments run.
    pub provider: String,
    /// How sessions are kept apart, for people.
    pub isolation: String,
}
