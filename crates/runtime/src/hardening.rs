//! What the runtime does to itself before anything else.
//!
//! Code of the environment runs under the same user id. Without this it could take over descriptors of process 1
//! (`pidfd_getfd`), trace it or read its memory. A process that is not dumpable refuses all of that to its own user,
//! and the files below its `/proc` directory belong to root.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::DumpableBehavior;

/// Makes the calling process untouchable for others of its user, and the heir of every orphan below it.
pub(crate) fn harden() -> rustix::io::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // Process 1 has its namespace's orphans anyway; this makes the rule hold wherever the program runs.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
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
