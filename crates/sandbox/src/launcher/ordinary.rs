//! What the launcher does first where the service is an ordinary user.
//!
//! It makes namespaces of its own, in which the service's user is 0, and prepares the mounts there: cloning mounts, changing
//! them and stacking overlays is allowed to whoever owns the mount namespace. The sandbox is then made from there like any
//! other. The namespaces end with the launcher; what was prepared in them stays with the sandbox.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::CWD;
use rustix::mount::OpenTreeFlags;
use rustix::thread::UnshareFlags;

use crate::kernel::{MountChange, change_mount};
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

/// The program through a mount of its own that is read-only: the service's files belong to the sandbox's user here, and a
/// running program can reach its own file. One that has no path any more is used as it was passed.
pub(super) fn sealed(program: OwnedFd) -> Result<OwnedFd, Failure> {
    let subject = "the passed program";
    let path = rustix::fs::readlink(format!("/proc/self/fd/{}", program.as_raw_fd()), Vec::new());
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let Some(mount) = path.ok().and_then(|path| rustix::mount::open_tree(CWD, path, flags).ok()) else {
        return Ok(program);
    };
    let identity = |descriptor: &OwnedFd| {
        rustix::fs::fstat(descriptor).map(|stat| (stat.st_dev, stat.st_ino)).at(Step::Source, subject)
    };
    if identity(&mount)? != identity(&program)? {
        return Ok(program);
    }
    let set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    change_mount(&mount, MountChange { set, ..MountChange::default() }).at(Step::Source, subject)?;
    Ok(mount)
}
