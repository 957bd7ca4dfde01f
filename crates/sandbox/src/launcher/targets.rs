//! Making the places inside the new root where things are mounted.
//!
//! What is already mounted may have been written by a tenant, so every path is walked component by
//! component from the root's descriptor and no symbolic link is followed. The directory walked to last
//! is kept, because neighbours follow each other, until something is mounted on it or above it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MoveMountFlags;

use crate::message::{AtStep, Failure, Step, refuse};

const PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The new root, in which places are made.
pub(super) struct Targets<'a> {
    root: BorrowedFd<'a>,
    /// The directory walked to last, by its path inside.
    last: Option<(PathBuf, OwnedFd)>,
}

impl<'a> Targets<'a> {
    pub(super) fn new(root: BorrowedFd<'a>) -> Self {
        Self { root, last: None }
    }

    /// Opens the directory at `path` (absolute inside), making what is missing.
    pub(super) fn directory(&mut self, path: &Path, mode: u32) -> Result<OwnedFd, Failure> {
        let Some(name) = path.file_name() else {
            return rustix::io::fcntl_dupfd_cloexec(self.root, 0).at(Step::Mount, path.display());
        };
        open_or_make(self.parent(path)?, name, mode).at(Step::Mount, path.display())
    }

    /// Opens the file at `path` as a mount point, making an empty one when there is none.
    pub(super) fn file(&mut self, path: &Path) -> Result<OwnedFd, Failure> {
        let name = name_of(path)?;
        let parent = self.parent(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o444));
        let place = made.or_else(|refusal| match rustix::fs::openat(parent, name, PLACE, Mode::empty()) {
            Err(Errno::NOENT) => Err(refusal),
            found => found,
        });
        place.at(Step::Mount, path.display())
    }

    /// Writes a file of our own; fails when something is there already.
    pub(super) fn write(&mut self, path: &Path, contents: &str, mode: u32) -> Result<(), Failure> {
        let name = name_of(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(self.parent(path)?, name, flags, Mode::from_raw_mode(mode))
            .at(Step::Mount, path.display())?;
        File::from(made).write_all(contents.as_bytes()).at(Step::Mount, path.display())
    }

    /// Makes a symbolic link.
    pub(super) fn symlink(&mut self, path: &Path, to: &Path) -> Result<(), Failure> {
        let name = name_of(path)?;
        rustix::fs::symlinkat(to, self.parent(path)?, name).at(Step::Mount, path.display())
    }

    /// Attaches a detached mount to an opened place.
    pub(super) fn attach(
        &mut self,
        mount: impl AsFd,
        place: impl AsFd,
        step: Step,
        path: &Path,
    ) -> Result<(), Failure> {
        if self.last.as_ref().is_some_and(|(last, _)| last.starts_with(path)) {
            self.last = None;
        }
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(mount.as_fd(), "", place.as_fd(), "", flags).at(step, path.display())
    }

    /// The directory that holds `path`, made where it is missing.
    fn parent(&mut self, path: &Path) -> Result<BorrowedFd<'_>, Failure> {
        let parent = path.parent().unwrap_or(path);
        let mut parts = parent.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        });
        let Some(first) = parts.next() else { return Ok(self.root) };
        if self.last.as_ref().is_none_or(|(last, _)| last != parent) {
            let mut current = open_or_make(self.root, first, 0o755).at(Step::Mount, path.display())?;
            for part in parts {
                current = open_or_make(current.as_fd(), part, 0o755).at(Step::Mount, path.display())?;
            }
            self.last = Some((parent.to_owned(), current));
        }
        Ok(self.last.as_ref().map_or(self.root, |(_, directory)| directory.as_fd()))
    }
}

fn open_or_make(parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> rustix::io::Result<OwnedFd> {
    let open = || rustix::fs::openat(parent, name, PLACE | OFlags::DIRECTORY, Mode::empty());
    match open() {
        Err(Errno::NOENT) => {
            rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode))?;
            open()
        }
        outcome => outcome,
    }
}

fn name_of(path: &Path) -> Result<&OsStr, Failure> {
    path.file_name().ok_or_else(|| refuse(Step::Mount, path.display(), "not a path of a file"))
}
