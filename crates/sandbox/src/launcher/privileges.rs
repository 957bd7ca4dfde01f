//! Ids, capabilities and namespaces of the process inside.

use std::fs;
use std::io;

use rustix::process::{Gid, Uid};

use crate::capabilities;
use crate::message::{AtStep, Failure, Step, refuse};

/// Becomes the user and group that own the sandbox's files: its root, or the run user where only that one is mapped. The
/// capabilities over the sandbox stay. Before this the process may have an unmapped id and could create nothing.
pub(super) fn become_owner((uid, gid): (u32, u32)) -> Result<(), Failure> {
    let (group, user) = (Gid::from_raw(gid), Uid::from_raw(uid));
    rustix::thread::set_thread_res_gid(group, group, group).at(Step::IdMap, "own group")?;
    rustix::thread::set_thread_res_uid(user, user, user).at(Step::IdMap, "own user")
}

/// Leaves the service's session keyring, which would be inherited otherwise. The filter forbids every
/// later look at keys; this is for `/proc/keys`.
pub(super) fn leave_session_keyring() -> Result<(), Failure> {
    const JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: a null name asks for a new anonymous keyring; no memory is touched.
    #[expect(unsafe_code, reason = "no safe wrapper of keyctl exists")]
    let outcome = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, std::ptr::null::<u8>()) };
    if outcome >= 0 {
        return Ok(());
    }
    match std::io::Error::last_os_error() {
        // A kernel without keys has none to leave, and an outer container may forbid the call.
        error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => Ok(()),
        error => Err(error).at(Step::Privileges, "session keyring"),
    }
}

/// What the sandbox's user namespace may have of things that are counted for whoever made it as well, and so for all sandboxes
/// and the service together. No user namespaces, a second fence behind the filter; and of the machine's few instances for
/// watching files no more than its programs need.
const BOUNDS_OF_THE_NAMESPACE: [(&str, &str); 3] = [
    ("/proc/sys/user/max_user_namespaces", "0"),
    ("/proc/sys/user/max_inotify_instances", "32"),
    ("/proc/sys/user/max_inotify_watches", "65536"),
];

/// Sets the bounds of this user namespace. A kernel built without inotify has no such file.
pub(super) fn bound_user_namespace() -> Result<(), Failure> {
    BOUNDS_OF_THE_NAMESPACE.iter().try_for_each(|(path, bound)| match fs::write(path, bound) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.contains("inotify") => Ok(()),
        outcome => outcome.at(Step::Privileges, path),
    })
}

/// Makes the control group the process is in by now the root of what it can see.
pub(super) fn enter_own_cgroup_namespace() -> Result<(), Failure> {
    // SAFETY: no other thread exists, and the flag does not affect descriptors.
    #[expect(unsafe_code, reason = "unshare is unsafe for threads that share descriptors; there are none")]
    let outcome = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWCGROUP) };
    outcome.at(Step::Cgroup, "namespace")
}

/// Gives up every capability for good and becomes the run user. Where the process is that already, changing the user takes
/// nothing away, so the capabilities are cleared by name and looked for again.
pub(super) fn give_up(uid: u32, gid: u32) -> Result<(), Failure> {
    capabilities::lock()?;
    let (group, user) = (Gid::from_raw(gid), Uid::from_raw(uid));
    rustix::thread::set_thread_res_gid(group, group, group).at(Step::Privileges, "run group")?;
    rustix::thread::set_thread_res_uid(user, user, user).at(Step::Privileges, "run user")?;
    capabilities::clear()?;
    if capabilities::can_be_gained()? {
        return Err(refuse(Step::Privileges, "capabilities", "the bounding set is not empty"));
    }
    rustix::thread::set_no_new_privs(true).at(Step::Privileges, "no_new_privs")
}
