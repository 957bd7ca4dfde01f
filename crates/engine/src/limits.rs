//! What the operator configured, as far as use cases look at it.

use std::path::PathBuf;
use std::time::Duration;

use stead_domain::file::ArtifactLimits;
use stead_domain::network::{BuildNetworkPolicy, NetworkPolicy};
use stead_domain::ports::SandboxLimits;

use crate::collect::CollectionSettings;
use crate::quotas::Quotas;

/// Bounds on what a caller may send, in bytes unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// One file of a project's source.
    pub file_bytes: u64,
    /// An import's body.
    pub import_bytes: u64,
    /// An import, unpacked.
    pub import_expanded_bytes: u64,
    /// Members of an import.
    pub import_members: u64,
    /// One uploaded file.
    pub upload_bytes: u64,
    /// A JSON body.
    pub json_bytes: u64,
    /// The text of one task.
    pub input_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 64 << 20,
            import_bytes: 512 << 20,
            import_expanded_bytes: 2 << 30,
            import_members: 200_000,
            upload_bytes: 64 << 20,
            json_bytes: 96 << 20,
            input_bytes: 1 << 20,
        }
    }
}

/// What the operator decided about imports from git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSettings {
    /// Hosts that are reached although the deny list may cover their addresses: names or address literals.
    pub allowed_hosts: Vec<String>,
    /// The longest that one import may take.
    pub time_limit: Duration,
    /// Imports that run at once.
    pub slots: usize,
}

/// What the operator decided about sessions and builds.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Bounds on requests.
    pub limits: Limits,
    /// Bounds on what a turn hands back.
    pub artifacts: ArtifactLimits,
    /// What sessions may reach at most, and what they reach when nothing narrower is said.
    pub session_network: NetworkPolicy,
    /// What builds reach when their project says nothing.
    pub build_network: BuildNetworkPolicy,
    /// What a project may let its builds reach at most.
    pub build_network_limit: BuildNetworkPolicy,
    /// The longest a turn may run.
    pub turn_time_limit: Duration,
    /// Raw output kept of one turn, in bytes; a turn that says more is ended.
    pub turn_output_bytes: u64,
    /// The longest that a turn waits until its environment runs.
    pub start_wait: Duration,
    /// How long a session's sandbox stays without a turn.
    pub idle_stop: Duration,
    /// Builds that run at once.
    pub build_slots: usize,
    /// What one command of a build step may say, in bytes; a step that says more is ended.
    pub build_output_bytes: u64,
    /// The longest a build may run, from its slot on.
    pub build_time_limit: Duration,
    /// The longest that a layer of unpinned packages is taken again.
    pub layer_age: Duration,
    /// Limits of build sandboxes.
    pub build_sandbox: SandboxLimits,
    /// How long it is kept who did what.
    pub audit_keep: Duration,
    /// What is collected, and when.
    pub collection: CollectionSettings,
    /// How much a workspace may keep.
    pub quotas: Quotas,
    /// Imports from git.
    pub git: GitSettings,
    /// Where request bodies are spooled.
    pub spool: PathBuf,
    /// Where running turns are noted for the next server process of this machine.
    pub handovers: PathBuf,
    /// How long the store may take for an answer to a question; for a commit three times as long. Who asked is then told that it
    /// does not answer.
    pub store_patience: Duration,
}

impl Settings {
    /// The usual [`store_patience`](Settings::store_patience): far more than a loaded disk needs, and less than clients wait.
    pub const STORE_PATIENCE: Duration = Duration::from_secs(10);
}
