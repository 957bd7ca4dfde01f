//! `clone3(2)` into new namespaces, with `clone(2)` where a kernel or an outer filter lacks it.
//!
//! Must only be called by a single-threaded process: the child goes on running ordinary code.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Every namespace a sandbox gets of its own. The control group namespace is made later, by
/// `unshare`, when the process is in its group.
pub(crate) const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWNET) as u64;

/// The constant of `linux/sched.h`; libc's is too narrow for its value.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Which of the two processes returned.
pub(crate) enum Cloned {
    /// The caller: host pid of the child, and whether the child was born in the control group.
    Parent { pid: i32, in_cgroup: bool },
    /// The new process.
    Child,
}

/// Makes a child in `namespaces`. With `sibling` the child's parent is the caller's parent, so that
/// the caller may go away and the caller's parent can wait for the child.
pub(crate) fn clone_into_namespaces(
    namespaces: u64,
    sibling: bool,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<Cloned> {
    match clone3(namespaces, sibling, cgroup) {
        // EBUSY, EACCES and the like are about the group: the child can still be moved there later.
        Err(error) if cgroup.is_some() && error.raw_os_error() != Some(libc::ENOSYS) => {
            clone3(namespaces, sibling, None)
        }
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => clone_classic(namespaces, sibling),
        outcome => outcome,
    }
}

/// Whether the kernel (and any filter around this process) lets `clone3` through: an empty structure is
/// refused as invalid where the call exists.
pub(crate) fn has_clone3() -> bool {
    // SAFETY: a null structure of size 0 is refused before anything is read.
    #[expect(unsafe_code, reason = "no safe wrapper of clone3 exists")]
    let outcome = unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<libc::clone_args>(), 0_usize) };
    outcome == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

fn clone3(namespaces: u64, sibling: bool, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Cloned> {
    let mut flags = namespaces;
    if sibling {
        flags |= libc::CLONE_PARENT as u64;
    }
    if cgroup.is_some() {
        flags |= CLONE_INTO_CGROUP;
    }
    let arguments = libc::clone_args {
        flags,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        // A sibling inherits the caller's own exit signal; naming one is refused.
        exit_signal: if sibling { 0 } else { libc::SIGCHLD as u64 },
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: cgroup.map_or(0, |group| group.as_raw_fd() as u64),
    };
    // SAFETY: without CLONE_VM this is a fork: the child gets a copy of the address space, and since
    // the launcher has one thread no lock can be held by a thread that is not there. The structure
    // lives on this frame with its exact size given. There is no safe wrapper of clone3.
    #[expect(unsafe_code, reason = "no safe wrapper of clone3 exists")]
    let outcome = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>()) };
    interpret(outcome, cgroup.is_some())
}

fn clone_classic(namespaces: u64, sibling: bool) -> io::Result<Cloned> {
    let parent = if sibling { libc::CLONE_PARENT as u64 } else { 0 };
    let flags = namespaces | parent | libc::SIGCHLD as u64;
    // SAFETY: as above; a null stack makes the child use a copy of the caller's. The first argument is
    // the flags and the second the stack on the architectures the seccomp table names.
    #[expect(unsafe_code, reason = "no safe wrapper of clone exists")]
    let outcome = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    interpret(outcome, false)
}

fn interpret(outcome: libc::c_long, in_cgroup: bool) -> io::Result<Cloned> {
    match outcome {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Cloned::Child),
        pid => Ok(Cloned::Parent { pid: pid as i32, in_cgroup }),
    }
}
