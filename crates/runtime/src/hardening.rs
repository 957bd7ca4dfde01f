//! What the runtime does to itself before anything else.
//!
//! Code of the environment runs under the same user id. Without this it could take over descriptors of process 1
//! (`pidfd_getfd`), trace it or read its memory. A process that is not dumpable refuses all of that to its own user,
//! and the files below its `/proc` directory belong to root.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit};

/// Makes the calling process untouchable for others of its user, and the heir of every orphan below it.
pub(crate) fn harden() -> rustix::io::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // Process 1 has its namespace's orphans anyway; this makes the rule hold wherever the program runs.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
}

/// Halves the calling process's bound on open files, hard and soft, for it and what it starts.
///
/// The kernel counts descriptors that are in flight between processes by user, and refuses to send more to whoever has a lower
/// bound on open files than are in flight. A command that has as many in flight as its bound allows leaves process 1, which has
/// twice the bound, able to send a supervisor its descriptors.
pub(crate) fn halve_open_files() -> rustix::io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let Some(half) = limit.maximum.map(|maximum| maximum / 2) else { return Ok(()) };
    let current = limit.current.map_or(half, |current| current.min(half));
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: Some(half) })
}

/// Takes standard input away from its number, close-on-exec, and puts `/dev/null` in its place.
pub(crate) fn take_stdin() -> rustix::io::Result<OwnedFd> {
    let taken = rustix::io::fcntl_dupfd_cloexec(std::io::stdin().as_fd(), 3)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(taken)
}

/// Descriptors besides the standard three: commands would inherit them. `None` when `/proc` cannot tell.
pub(crate) fn stray_descriptors() -> Option<Vec<i32>> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    let numbers: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    // Reading the directory takes one descriptor itself, the lowest free number; it is gone by now.
    let open = |number: &i32| std::fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok();
    Some(numbers.into_iter().filter(|number| *number > 2).filter(open).collect())
}
