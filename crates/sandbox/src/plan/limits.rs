//! Amounts a sandbox may use.

use serde::{Deserialize, Serialize};

/// What one sandbox may use. Memory, processes and processor time are bounded by control groups
/// where those exist; the rest by resource limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of all processes and of the sandbox's temporary file systems, in bytes.
    pub memory_bytes: u64,
    /// Processes and threads. Also set as `RLIMIT_NPROC`, which is the bound left without control groups.
    pub processes: u64,
    /// Processor time in thousandths of a core.
    pub cpu_millis: u64,
    /// Open files per process.
    pub open_files: u64,
    /// Largest file one process may write, in bytes; `None` leaves it to the file system.
    pub file_size: Option<u64>,
    /// Bytes that may be read from, and as many that may be written to, each disk in a second. Needs the version 2 controller
    /// `io`; without it (see [`crate::cgroup::CgroupManager::version_of`]) the number is ignored.
    pub io_bytes_per_second: Option<u64>,
}

/// Bound of a memory file system. Both numbers are needed: without an inode bound, empty files
/// would eat memory up to the memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TmpfsSize {
    /// Bytes of content.
    pub size_bytes: u64,
    /// Files, directories and links together.
    pub inodes: u64,
}
