//! Control groups, of both versions, each controller where the host has it.
//!
//! One group per sandbox beneath a directory of the service's own. A hybrid host has some controllers
//! in version 1 hierarchies and a version 2 hierarchy that may hold none; that one is used all the
//! same, because only it can kill a group at once. Where a controller is missing the sandbox has only
//! resource limits for it, which [`CgroupManager::missing`] reports as *soft*.

mod controllers;
mod detect;
mod disks;
mod files;
mod kill;
mod manager;
mod weights;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

pub use controllers::{Controller, Version};
pub use manager::CgroupManager;

/// Why something about a control group failed.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A name that is not one plain path component.
    #[error("{0:?} is no name for a control group")]
    Name(String),
    /// The kernel refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

/// The control group of one sandbox, in as many hierarchies as the host has for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    /// The name it was made with.
    pub name: String,
    /// Its directory in the version 2 hierarchy.
    pub unified: Option<PathBuf>,
    /// Its directories in version 1 hierarchies.
    pub legacy: Vec<PathBuf>,
    /// Whether one of them bounds memory.
    pub bounds_memory: bool,
}

impl Cgroup {
    /// The version 2 directory, opened for a process to be born in.
    pub(crate) fn open_unified(&self) -> Option<OwnedFd> {
        let path = self.unified.as_ref()?;
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
    }

    /// The file to which a pid is written to move it into the version 2 group.
    pub(crate) fn unified_membership(&self) -> Option<PathBuf> {
        self.unified.as_ref().map(|directory| directory.join("cgroup.procs"))
    }

    /// Files to which a process of one thread writes `0` to move itself into the version 1 groups. Moving any other process, or
    /// oneself through `cgroup.procs`, takes a lock of the whole machine's, for which the kernel waits about 10 ms.
    pub(crate) fn legacy_memberships(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.legacy.iter().map(|directory| directory.join("tasks"))
    }
}

/// What a group has used so far. `None` where the controller is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CgroupStats {
    /// Memory in use, bytes.
    pub memory_bytes: Option<u64>,
    /// The most memory that was ever in use, bytes.
    pub memory_peak_bytes: Option<u64>,
    /// Processes killed because the group's memory was used up.
    pub out_of_memory_kills: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Processes refused because of the group's bound.
    pub processes_refused: Option<u64>,
    /// Processor time used, microseconds.
    pub cpu_micros: Option<u64>,
}
