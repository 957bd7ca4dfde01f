//! Making the places inside the new root where things are mounted.
//!
//! What is already mounted may have been written by a tenant, so every path is walked component by
//! component from the root's descriptor and no symbolic link is followed.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MoveMountFlags;

use crate::message::{AtStep, Failure, Step, refuse};

/// Opens the directory at `path` (absolute inside), making what is missing.
pub(super) fn directory(root: BorrowedFd<'_>, path: &Path, mode: u32) -> Result<OwnedFd, Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut current = rustix::io::fcntl_dupfd_cloexec(root, 0).at(Step::Mount, path.display())?;
    let parts: Vec<_> = normal_parts(path).collect();
    for (index, part) in parts.iter().enumerate() {
        current = match rustix::fs::openat(&current, *part, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                let mode = if index + 1 == parts.len() { mode } else { 0o755 };
                rustix::fs::mkdirat(&current, *part, Mode::from_raw_mode(mode)).at(Step::Mount, path.display())?;
                rustix::fs::openat(&current, *part, flags, Mode::empty())
            }
            outcome => outcome,
        }
        .at(Step::Mount, path.display())?;
    }
    Ok(current)
}

/// Opens the file at `path` as a mount point, making an empty one when there is none.
pub(super) fn file(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Failure> {
    let (parent, name) = parent_and_name(root, path)?;
    let found = rustix::fs::openat(&parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    match found {
        Err(Errno::NOENT) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o444))
        }
        outcome => outcome,
    }
    .at(Step::Mount, path.display())
}

/// Writes a file of our own; fails when something is there already.
pub(super) fn write(root: BorrowedFd<'_>, path: &Path, contents: &str, mode: u32) -> Result<(), Failure> {
    let (parent, name) = parent_and_name(root, path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(mode)).at(Step::Mount, path.display())?;
    File::from(made).write_all(contents.as_bytes()).at(Step::Mount, path.display())
}

/// Makes a symbolic link.
pub(super) fn symlink(root: BorrowedFd<'_>, path: &Path, to: &Path) -> Result<(), Failure> {
    let (parent, name) = parent_and_name(root, path)?;
    rustix::fs::symlinkat(to, &parent, name).at(Step::Mount, path.display())
}

/// Attaches a detached mount to an opened place.
pub(super) fn attach(mount: impl AsFd, place: impl AsFd, step: Step, path: &Path) -> Result<(), Failure> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount.as_fd(), "", place.as_fd(), "", flags).at(step, path.display())
}

fn parent_and_name<'a>(root: BorrowedFd<'_>, path: &'a Path) -> Result<(OwnedFd, &'a std::ffi::OsStr), Failure> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refuse(Step::Mount, path.display(), "not a path of a file"));
    };
    Ok((directory(root, parent, 0o755)?, name))
}

fn normal_parts(path: &Path) -> impl Iterator<Item = &std::ffi::OsStr> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}
