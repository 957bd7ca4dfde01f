//! Which ids of the host a sandbox's processes have.

use serde::{Deserialize, Serialize};

/// Host users and groups of a sandbox. Host user 0 is never among them: a sandbox whose user is the host's root is not
/// contained, whatever capabilities it lacks, because ordinary owner permission still applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ids {
    /// Consecutive ids of this sandbox alone, seen inside as `0..count`. Needs root. What belongs to one sandbox is closed to
    /// every other by the ordinary permissions of files and processes as well.
    Range {
        /// Host uid (and gid) that appears as 0 inside. Never 0.
        first: u32,
        /// How many.
        count: u32,
    },
    /// The one user and group of the service, which is no root, seen inside as the run user and group; nothing else is mapped.
    /// All sandboxes of the service have the same, so that namespaces alone keep them apart.
    Own,
}

impl Ids {
    /// Host user and group of the run user; `None` for [`Ids::Own`], where they are the service's.
    pub fn of_run_user(self, run_uid: u32, run_gid: u32) -> Option<(u32, u32)> {
        match self {
            Self::Range { first, .. } => Some((first + run_uid, first + run_gid)),
            Self::Own => None,
        }
    }

    /// User and group, inside, of what is made for the sandbox: its root where it has one. What they own is kept from the run
    /// user by read-only mounts, whoever they are.
    pub(crate) fn owner(self, run_uid: u32, run_gid: u32) -> (u32, u32) {
        match self {
            Self::Range { .. } => (0, 0),
            Self::Own => (run_uid, run_gid),
        }
    }
}
