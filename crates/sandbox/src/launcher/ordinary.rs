//! What the launcher does first where the service is an ordinary user.
//!
//! It makes namespaces of its own, in which the service's user is 0, and prepares the mounts there: cloning mounts, changing
//! them and stacking overlays is allowed to whoever owns the mount namespace. The sandbox is then made from there like any
//! other. The namespaces end with the launcher; what was prepared in them stays with the sandbox.

use std::fs;

use rustix::thread::UnshareFlags;

use crate::message::{AtStep, Failure, Step};

/// Becomes user and group 0 of a user namespace whose only ids these are, with a copy of the mounts. Supplementary groups
/// cannot be left by an ordinary user; they open nothing that is not shown inside.
pub(crate) fn enter_own_namespaces() -> Result<(), Failure> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // SAFETY: no other thread exists, and the flags do not affect descriptors.
    #[expect(unsafe_code, reason = "unshare is unsafe for threads that share descriptors; there are none")]
    let made = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) };
    made.at(Step::Clone, "namespaces of an ordinary user")?;
    // In this order: groups can be mapped without privileges only after giving up to set them.
    let maps = [
        ("/proc/self/setgroups", "deny".to_string()),
        ("/proc/self/uid_map", format!("0 {uid} 1\n")),
        ("/proc/self/gid_map", format!("0 {gid} 1\n")),
    ];
    maps.iter().try_for_each(|(path, text)| fs::write(path, text).at(Step::IdMap, path))
}
