//! What can be done with mounts before they are attached.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags};

use super::kernel::feature;
use super::{Feature, State, Who};
use crate::kernel::{MountChange, change_mount};
use crate::launcher::sources;
use crate::message::Failure;
use crate::plan::Ids;

/// Changing mounts while they are detached.
pub(super) fn attributes() -> Feature {
    // With all that is mounted beneath: an ordinary user may not see what a mount hides.
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let outcome = rustix::mount::open_tree(CWD, "/", flags).map_err(io::Error::from).and_then(|tree| {
        change_mount(&tree, MountChange { set: libc::MOUNT_ATTR_RDONLY, recursive: true, id_map: None })
    });
    feature(
        "mount_setattr",
        true,
        outcome,
        "read-only mounts are read-only from their first instant",
        "mounts cannot be prepared before they are attached",
        "use a kernel from 5.12 on that lets the service make user namespaces",
    )
}

/// Showing the service's files as the run user's.
pub(super) fn id_mapped(who: Who, data: &Path) -> Feature {
    let name = "id-mapped mounts";
    let good = "a build may change the files it was given";
    if who == Who::OrdinaryUser {
        return Feature {
            name: name.into(),
            state: State::Enforced,
            required: false,
            explanation: format!("{good}; they belong to the one user anyway, so nothing is mapped"),
            fix: None,
        };
    }
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let outcome = sources::user_namespace(65_536, 65_536).map_err(into_io).and_then(|namespace| {
        let tree = rustix::mount::open_tree(CWD, data, flags)?;
        change_mount(&tree, MountChange { id_map: Some(namespace.as_fd()), ..MountChange::default() })
    });
    feature(
        name,
        false,
        outcome,
        good,
        "a build with its own set-up script cannot change the files it was given",
        "keep the data directory on ext4, xfs or btrfs and use a kernel from 5.19 on",
    )
}

/// Stacking directories, tried for real in a memory file system that is attached nowhere.
pub(super) fn overlay(who: Who) -> Feature {
    feature(
        "overlay",
        false,
        stack(if who == Who::OrdinaryUser { Ids::Own } else { Ids::Range { first: 65_536, count: 1 } }),
        "layers can be stacked",
        "projects that install themselves or have a set-up script cannot be built",
        "modprobe overlay, and use a kernel from 5.11 on where the service is an ordinary user",
    )
}

fn stack(ids: Ids) -> io::Result<()> {
    let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(context.as_fd())?;
    let memory =
        rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NODEV)?;
    let mut directories: Vec<OwnedFd> = Vec::new();
    for name in ["first", "second", "upper", "work"] {
        rustix::fs::mkdirat(&memory, name, Mode::from_raw_mode(0o700))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        directories.push(rustix::fs::openat(&memory, name, flags, Mode::empty())?);
    }
    let (work, upper) = (directories.pop(), directories.pop());
    sources::overlay(ids, Path::new("/"), &directories, upper.zip(work).as_ref()).map(drop).map_err(into_io)
}

pub(super) fn into_io(failure: Failure) -> io::Error {
    failure.errno.map_or_else(|| io::Error::other(failure.message), io::Error::from_raw_os_error)
}
