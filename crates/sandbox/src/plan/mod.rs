//! The description of one sandbox: plain data, made by the server, applied by the launcher.
//!
//! A plan holds no descriptors and no secrets of the service; descriptors travel beside it in a
//! [`crate::Handover`]. [`SandboxPlan::validate`] is run on both sides of the pipe.

mod ids;
mod limits;
mod mounts;
mod system;
mod validate;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroup;
pub use ids::Ids;
pub use limits::{Limits, TmpfsSize};
pub use mounts::Mount;
pub use system::{SystemBase, system_mounts};
pub use validate::PlanError;

/// Handed-over descriptors get numbers below this one; the launcher works above it.
pub const FIRST_WORKING_DESCRIPTOR: i32 = 64;

/// The number under which the program finds the listening socket of [`SandboxPlan::listen`].
pub const LISTEN_DESCRIPTOR: i32 = 3;

/// Everything the launcher must know to make one sandbox and start one program in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPlan {
    /// Host name seen inside, 1 to 64 bytes.
    pub hostname: String,
    /// Host users and groups.
    pub ids: Ids,
    /// User the program runs as, inside.
    pub run_uid: u32,
    /// Group the program runs as, inside.
    pub run_gid: u32,
    /// Mounts in the order in which they are made; a later one may lie beneath an earlier one.
    /// `/proc`, `/dev`, `/dev/shm` and `/tmp` are made before all of them.
    pub mounts: Vec<Mount>,
    /// Size of `/tmp`.
    pub temporary: TmpfsSize,
    /// Size of `/dev/shm`.
    pub shared_memory: TmpfsSize,
    /// Whether `/dev/pts` and `/dev/ptmx` exist (a private instance).
    pub pseudo_terminals: bool,
    /// What the sandbox may use.
    pub limits: Limits,
    /// Control groups made beforehand by [`crate::cgroup::CgroupManager::create`].
    pub cgroup: Option<Cgroup>,
    /// Network seen inside.
    pub network: Network,
    /// What is executed.
    pub program: Program,
    /// Argument vector including the zeroth.
    pub arguments: Vec<String>,
    /// The whole environment; nothing is added and nothing inherited.
    pub environment: Vec<(String, String)>,
    /// Absolute directory inside in which the program starts.
    pub working_directory: PathBuf,
    /// Host path of a unix stream socket that the launcher binds (mode 0600) and hands to the program,
    /// listening, as descriptor [`LISTEN_DESCRIPTOR`]. Must lie in a directory no sandbox can see.
    pub listen: Option<PathBuf>,
}

/// Network seen inside a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// An empty network namespace of its own with the loopback interface up.
    Loopback,
}

/// What is executed in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// The descriptor in [`crate::Handover::program`]; need not be visible inside. Not for scripts:
    /// an interpreter could not open it again.
    Descriptor,
    /// An absolute path inside the sandbox.
    Path(PathBuf),
}
