//! What the provider must be told.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use stead_domain::ports::{ProviderError, SandboxLimits};
use stead_egress::{Policy, PortRule};

use crate::program;

/// Consecutive host user ids of one slot.
pub const UIDS_PER_SLOT: u32 = 65_536;

/// Where the search for free ids begins, as the first host user id of slot 0: above what distributions, directories and
/// container engines hand out.
pub const DEFAULT_UID_BASE: u32 = 0x7000_0000;

/// Where the services of a machine note which ids they have.
pub const RANGES: &str = "/var/lib/stead-uids";

const DEFAULT_SLOTS: u32 = 4096;

/// Whether so many slots from an id on, and the one before it, are ids that there can be.
pub(crate) fn fits(uid_base: u32, slots: u32) -> bool {
    // The last id means "none" to the kernel, and is no sandbox's either.
    uid_base >= UIDS_PER_SLOT && slots.checked_mul(UIDS_PER_SLOT).is_some_and(|ids| uid_base.checked_add(ids).is_some())
}

/// The program that becomes process 1 of every sandbox.
#[derive(Debug, Clone)]
pub enum RuntimeProgram {
    /// A file, read once when the provider opens.
    File {
        /// Where it is.
        path: PathBuf,
        /// The SHA-256 it must have; without one, whatever says of itself that it is a runtime is taken.
        sha256: Option<[u8; 32]>,
    },
    /// The program itself, as built into the server.
    Bytes(&'static [u8]),
}

impl RuntimeProgram {
    /// Finds out whether it can be the runtime. Blocking.
    ///
    /// # Errors
    /// Permanent: `runtime_missing`, `runtime_changed`, `runtime_unknown`.
    pub fn check(&self) -> Result<(), ProviderError> {
        program::seal(self).map(drop)
    }
}

/// The configuration of a [`NativeProvider`](crate::NativeProvider).
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// The service's data directory, absolute; files lie beneath `environments`.
    pub data: PathBuf,
    /// Where sockets lie while something runs, absolute; of this provider alone. Any length.
    pub run: PathBuf,
    /// The binary that is started again as the sandbox launcher and as the egress proxy; it must call
    /// `stead_sandbox::launcher_main` and [`egress_main`](crate::egress_main) under their names.
    pub launcher: PathBuf,
    /// Process 1 of every sandbox.
    pub runtime: RuntimeProgram,
    /// The first host user id of slot 0, above 65535; the one before it is the egress proxy's. `None`: those that the data directory
    /// used before, else free ones are found. Means nothing to a service that is an ordinary user.
    pub uid_base: Option<u32>,
    /// Where the services of this machine note which ids they have, absolute; the same for all of them. Used as root.
    pub ranges: PathBuf,
    /// The name of this data directory's machine, which tells a copy of the directory from the original.
    pub node: String,
    /// How many sandboxes there can be, stopped ones included.
    pub slots: u32,
    /// How many of them one workspace may have. `None`: half, and at least one.
    pub workspace_slots: Option<u32>,
    /// Limits of each session. Builds bring their own.
    pub limits: SandboxLimits,
    /// What one sandbox may read from a disk, and write to it, in a second, in bytes, where control groups of version 2 have `io`.
    pub disk_rate: Option<u64>,
    /// How much of the disk stays free for the service, in bytes: a sandbox that writes beyond is ended.
    pub disk_reserve: u64,
    /// How long a sandbox outlives a service that is gone: it ends itself then. At least a second; a part of one counts as whole.
    pub orphan_grace: Duration,
    /// The directory of our control groups; must differ between services on one machine.
    pub cgroup_prefix: String,
    /// Directories that appear read-only at `/opt/stead/<their name>`.
    pub toolchains: Vec<PathBuf>,
    /// Hosts (`name`, `address` or either with `:port`) that builds may reach although the deny list covers their addresses.
    pub registry_hosts: BTreeSet<String>,
    /// Ports that an enabled network of sessions opens.
    pub session_ports: PortRule,
    /// Endpoints that every enabled network may reach whatever the deny list says.
    pub extra_allowed: Vec<SocketAddr>,
    /// A bundle of certificate authorities shown in place of the host's own.
    pub ca_bundle: Option<PathBuf>,
    /// The provider's name in rows and configuration.
    pub name: String,
}

impl NativeConfig {
    /// The defaults: 4096 slots, the running binary as launcher, 2 GiB, 512 processes, two cores and 10 GiB of disk each.
    pub fn new(data: impl Into<PathBuf>, run: impl Into<PathBuf>, runtime: RuntimeProgram) -> Self {
        Self {
            data: data.into(),
            run: run.into(),
            launcher: PathBuf::from("/proc/self/exe"),
            runtime,
            uid_base: None,
            ranges: PathBuf::from(RANGES),
            node: "node".to_owned(),
            slots: DEFAULT_SLOTS,
            workspace_slots: None,
            limits: SandboxLimits {
                memory_bytes: 2 << 30,
                processes: 512,
                cpu_millis: 2000,
                open_files: 4096,
                disk_bytes: 10 << 30,
                disk_files: 1_000_000,
            },
            disk_rate: Some(256 << 20),
            disk_reserve: 512 << 20,
            orphan_grace: Duration::from_mins(2),
            cgroup_prefix: "stead".to_owned(),
            toolchains: Vec::new(),
            registry_hosts: BTreeSet::new(),
            session_ports: Policy::open("").ports,
            extra_allowed: Vec::new(),
            ca_bundle: None,
            name: "native".to_owned(),
        }
    }

    /// The most slots of one workspace.
    pub(crate) fn slots_of_one_workspace(&self) -> u32 {
        self.workspace_slots.unwrap_or(self.slots / 2).max(1)
    }
}
