//! What a workspace keeps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer of `POST /stead/v1/collect`: what the run removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Collected {
    /// `stead.collection`.
    pub object: String,
    /// Versions whose files were given up.
    pub versions: u64,
    /// Layers that no version names.
    pub layers: u64,
    /// Uploads that no task has named.
    pub uploads: u64,
    /// Contents of files that nothing names.
    pub blobs: u64,
    /// Contents of files that nothing names and that stay for the rest of their grace.
    #[serde(default)]
    pub unnamed: u64,
    /// The bytes of all of it.
    pub bytes: u64,
}

/// How much of something there is, and how much there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// What there is.
    pub used: u64,
    /// What there may be; null where nothing is bounded.
    pub quota: Option<u64>,
}

/// The answer of `GET /stead/v1/usage`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// `stead.usage`.
    pub object: String,
    /// Contents of files, in bytes; identical ones once.
    pub blob_bytes: Kept,
    /// Versions and layers, in bytes: the source of each version, each layer once.
    pub version_bytes: Kept,
    /// Projects.
    pub projects: Kept,
    /// Files of the largest source; the quota is that of each source.
    pub source_files: Kept,
    /// How many contents of files there are.
    pub blobs: u64,
}
