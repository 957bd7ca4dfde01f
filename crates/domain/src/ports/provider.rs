//! Where environments run.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::PortFuture;
use super::runtime::Runtime;
use crate::ids::{EnvironmentId, OperationId, ProjectId, WorkspaceId};
use crate::limit::Reached;
use crate::network::{NetworkMode, NetworkPolicy};

/// A refusal or fault of a provider.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// A stable code.
    pub code: String,
    /// A safe sentence.
    pub message: String,
    /// Whether trying again cannot help until something changes.
    pub permanent: bool,
}

impl ProviderError {
    /// Whether there is no room for another environment or build step until one of them ends: such codes end in `_full`.
    pub fn is_full(&self) -> bool {
        !self.permanent && self.code.ends_with("_full")
    }

    /// A fault that may pass.
    pub fn passing(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), permanent: false }
    }

    /// A fault that stays.
    pub fn permanent(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), permanent: true }
    }
}

/// What is known after a call. An unknown outcome is resolved by [`Provider::inspect`], never by repeating.
#[derive(Debug)]
pub enum Outcome<T> {
    /// The provider was never asked.
    NotDispatched(ProviderError),
    /// The provider answered.
    Known(Result<T, ProviderError>),
    /// The answer was lost.
    Unknown(ProviderError),
}

/// What a provider can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderCapabilities {
    /// Stopping keeps the files.
    pub stop_keeps_files: bool,
    /// Built versions are mounted without copying.
    pub mounts_versions: bool,
    /// The network policies that it enforces.
    pub networks: Vec<NetworkMode>,
    /// How sessions are kept apart, for people.
    pub isolation: String,
    /// What one session may have, where the provider bounds it.
    pub session_limits: Option<SandboxLimits>,
}

/// What lies at a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountSource {
    /// A directory of this machine, read-only.
    Directory(PathBuf),
    /// Several directories as one read-only tree, uppermost first.
    Overlay(Vec<PathBuf>),
}

/// One read-only mount of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// The absolute path inside.
    pub target: String,
    /// What lies there.
    pub source: MountSource,
}

/// What an environment runs with. Its serialised form is the fingerprint that decides whether a running sandbox may be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartSpec {
    /// The versions, in mounting order.
    pub mounts: Vec<Mount>,
    /// What it may reach.
    pub network: NetworkPolicy,
}

/// What is true of an environment according to its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// Whether its files exist.
    pub exists: bool,
    /// Whether it runs.
    pub running: bool,
    /// The operation that last made or started it.
    pub last_operation: Option<OperationId>,
    /// The provider's record, as create and start return it.
    pub handle: Option<String>,
}

/// An account that environments run on. Each call carries an operation id that becomes the name or label of what it makes, so
/// that an interrupted call finds it again; repeating a call with the same operation id is harmless.
pub trait Provider: Send + Sync {
    /// Its name in rows and configuration.
    fn name(&self) -> &str;

    /// What it can do.
    fn capabilities(&self) -> ProviderCapabilities;

    /// Makes an environment and runs it; returns the provider's record.
    fn create<'a>(
        &'a self,
        operation: OperationId,
        environment: EnvironmentId,
        workspace: WorkspaceId,
        spec: &'a StartSpec,
    ) -> PortFuture<'a, Outcome<String>>;

    /// Runs a stopped environment; returns the provider's record.
    fn start<'a>(
        &'a self,
        operation: OperationId,
        environment: EnvironmentId,
        workspace: WorkspaceId,
        spec: &'a StartSpec,
    ) -> PortFuture<'a, Outcome<String>>;

    /// Ends every process of an environment; its files stay. Stopping what is stopped succeeds.
    fn stop(&self, operation: OperationId, environment: EnvironmentId) -> PortFuture<'_, Outcome<()>>;

    /// Removes an environment with its files. Deleting what is not there succeeds.
    fn delete(&self, operation: OperationId, environment: EnvironmentId) -> PortFuture<'_, Outcome<()>>;

    /// What is true now.
    fn inspect(&self, environment: EnvironmentId) -> PortFuture<'_, Result<Observed, ProviderError>>;

    /// Takes what is there in an environment, and what was reached so far, as found: neither is told of what begins now.
    fn limits_noted(&self, environment: EnvironmentId) -> PortFuture<'_, ()>;

    /// The limits that something in an environment ran into since this was last asked or noted, those first that explain most.
    /// Who wants to know it of one turn has it noted before it begins and asks when it has ended. With `thorough` everything is looked at that can
    /// tell, which takes as long as measuring the disk does.
    fn limits_reached(&self, environment: EnvironmentId, thorough: bool) -> PortFuture<'_, Vec<Reached>>;

    /// The runtime of a running environment, dialled anew or shared.
    fn link(&self, environment: EnvironmentId) -> PortFuture<'_, Result<Arc<dyn Runtime>, ProviderError>>;

    /// Settles what an earlier server process left on this machine. Environments in `owned` that still run as they were launched
    /// are taken over: from here on they are this process's own, linked and inspected like any other. Every other process tree is
    /// ended, and what was kept for environments that are not in `owned` is removed; the files of owned ones stay. Called once after
    /// a start, before anything else.
    fn sweep<'a>(&'a self, owned: &'a [EnvironmentId]) -> PortFuture<'a, Result<Swept, ProviderError>>;
}

/// What a sweep came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many process trees were ended.
    pub ended: usize,
    /// Environments that run and were taken over.
    pub adopted: Vec<EnvironmentId>,
}

/// Limits of one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLimits {
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub processes: u64,
    /// Thousandths of a core.
    pub cpu_millis: u64,
    /// Open files per process.
    pub open_files: u64,
    /// What it may write to disk, in bytes.
    pub disk_bytes: u64,
    /// How many files it may make.
    pub disk_files: u64,
}

/// What a build sandbox may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildNetwork {
    /// Loopback only.
    Disabled,
    /// The egress proxy with exact hosts, each a name or an address, with a port where it is not one of the web's; the operator's
    /// registries among them may have addresses that are denied otherwise.
    Restricted(BTreeSet<String>),
    /// The egress proxy with open names. The ports of these hosts, written as those of a restricted network, are open besides, and
    /// the operator's registries may have addresses that are denied otherwise.
    Enabled(BTreeSet<String>),
    /// The egress proxy with one host.
    Only(Endpoint),
}

/// One host that a sandbox may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// A name, an IPv4 address, or an IPv6 address in brackets.
    pub host: String,
    /// The ports, the declared one first.
    pub ports: Vec<u16>,
    /// Whether the operator allows the host although the deny list may cover its addresses.
    pub allowed: bool,
    /// The most that goes to and fro altogether, in bytes.
    pub total_bytes: u64,
}

/// What one build step sees: nothing but this.
#[derive(Debug, Clone)]
pub struct BuildSandboxSpec {
    /// The tenant, for quotas and names.
    pub workspace_id: WorkspaceId,
    /// The project, for names and caches.
    pub project_id: ProjectId,
    /// The number of the build, for the log; an import has none.
    pub build: Option<u32>,
    /// Read-only directories of this machine, in mounting order.
    pub mounts: Vec<Mount>,
    /// Directories of this machine that the step writes, each with its absolute path inside. They are handed to the
    /// sandbox's user for the step and taken back when it ends.
    pub writable: Vec<(String, PathBuf)>,
    /// A writable overlay, for a step that may write anywhere beneath the mount: its path inside, the lower directories
    /// uppermost first, the directory that receives the writes, and an empty work directory on the same file system.
    pub overlay: Option<BuildOverlay>,
    /// What it may reach.
    pub network: BuildNetwork,
    /// Its limits.
    pub limits: SandboxLimits,
    /// Wall-clock limit of each command.
    pub time_limit: Duration,
}

/// A writable overlay of a build step.
#[derive(Debug, Clone)]
pub struct BuildOverlay {
    /// The absolute path inside.
    pub target: String,
    /// What is read, uppermost first.
    pub lowers: Vec<PathBuf>,
    /// What receives the writes.
    pub upper: PathBuf,
    /// An empty directory on the same file system as `upper`.
    pub work: PathBuf,
}

/// A running sandbox of a build step.
pub trait BuildSandbox: Send + Sync {
    /// Its runtime.
    fn runtime(&self) -> Arc<dyn Runtime>;

    /// The limits that something in it ran into since this was last asked, those first that explain most.
    fn limits_reached(&self) -> PortFuture<'_, Vec<Reached>>;

    /// The hosts that it asked for and that its network does not let it reach, as far as the provider can tell: a few of them, each
    /// with the port where it is the port that is closed.
    fn refused_hosts(&self) -> PortFuture<'_, BTreeSet<String>> {
        Box::pin(async { BTreeSet::new() })
    }

    /// Ends everything in it and takes the writable directories back: owned by the service, no set-id bits.
    fn close(self: Box<Self>) -> PortFuture<'static, Result<(), ProviderError>>;
}

/// Makes sandboxes for build steps: the same kind that sessions get (UHP Environments §9: no more privilege than a task).
pub trait BuildSandboxes: Send + Sync {
    /// Makes one.
    fn open(&self, spec: BuildSandboxSpec) -> PortFuture<'_, Result<Box<dyn BuildSandbox>, ProviderError>>;

    /// Finds out whether a sandbox of that network would reach its host: resolves and judges the name and connects to the
    /// first port. Codes of refusals: `host_invalid`, `host_denied`, and `host_closed` where no exemption helps (permanent);
    /// `host_unresolved`, `host_unreachable`.
    fn probe<'a>(&'a self, endpoint: &'a Endpoint) -> PortFuture<'a, Result<(), ProviderError>>;

    /// Ends what an earlier server process left of builds on this machine.
    fn sweep_builds(&self) -> PortFuture<'_, Result<usize, ProviderError>>;
}
