//! Sealing: what a step's programs left becomes the service's own and unwritable.
//!
//! The tree is the work of strangers, so it is walked by directory descriptors, a link is never followed, and whatever is
//! neither file, directory nor link is removed. By the time of sealing nothing runs any more that could write it.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use stead_domain::source::TreeSize;

use super::{BLOCK, LayoutError, sync_file_system};
use crate::beneath::open_beneath;

/// Directories nested deeper than this are refused: no installer makes them, and walking holds a descriptor per level.
const MAX_DEPTH: usize = 200;
/// How many removed names are told.
const MAX_REMOVED: usize = 20;

/// Whether the tree is the upper directory of an overlay, where a character device 0/0 says "removed".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whiteouts {
    /// They are kept: they mean something when the tree is mounted above its lower ones.
    Keep,
    /// They are strangers' devices like any other.
    Remove,
}

/// What was sealed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sealed {
    /// Regular files, and the bytes that all entries take on disk in blocks of 4 KiB: directories, links and empty files take one, so
    /// that no number of them is free. A sparse file counts as long as it says it is.
    pub size: TreeSize,
    /// Sockets, pipes and devices that were removed, by name, as far as there is room for them.
    pub removed: Vec<String>,
}

/// Seals a tree: owned by the service, no write bit on files, no set-id and sticky bits, no special files; durable on return.
pub fn seal_tree(root: &Path, whiteouts: Whiteouts) -> Result<Sealed, LayoutError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(CWD, root, flags, Mode::empty())
        .map_err(|source| LayoutError::io("open", root, source.into()))?;
    let mut sealer = Sealer {
        root,
        whiteouts,
        uid: rustix::process::geteuid(),
        gid: rustix::process::getegid(),
        sealed: Sealed::default(),
    };
    sealer.directory(&directory, 0)?;
    sync_file_system(root)?;
    Ok(sealer.sealed)
}

struct Sealer<'a> {
    root: &'a Path,
    whiteouts: Whiteouts,
    uid: Uid,
    gid: Gid,
    sealed: Sealed,
}

impl Sealer<'_> {
    fn directory(&mut self, directory: &OwnedFd, depth: usize) -> Result<(), LayoutError> {
        if depth > MAX_DEPTH {
            return Err(LayoutError::TooDeep { limit: MAX_DEPTH });
        }
        // Owner first: changing it may clear bits, and only the owner may set them.
        rustix::fs::fchown(directory, Some(self.uid), Some(self.gid)).map_err(self.failed("take over"))?;
        rustix::fs::fchmod(directory, Mode::from_raw_mode(0o755)).map_err(self.failed("set the mode beneath"))?;
        let listing = Dir::read_from(directory).map_err(self.failed("list"))?;
        for entry in listing {
            let entry = entry.map_err(self.failed("list"))?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                self.entry(directory, name, depth)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, directory: &OwnedFd, name: &CStr, depth: usize) -> Result<(), LayoutError> {
        let stat =
            rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(self.failed("look at a file of"))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.sealed.size.bytes += BLOCK;
                self.own(directory, name)?;
                let inner = self.open(directory, name, Mode::from_raw_mode(stat.st_mode), OFlags::DIRECTORY)?;
                self.directory(&inner, depth + 1)
            }
            FileType::RegularFile => {
                self.own(directory, name)?;
                let file = self.open(directory, name, Mode::from_raw_mode(stat.st_mode), OFlags::NONBLOCK)?;
                let executable = stat.st_mode & 0o111 != 0;
                let mode = if executable { 0o555 } else { 0o444 };
                rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))
                    .map_err(self.failed("set the mode of a file of"))?;
                self.sealed.size.files += 1;
                let bytes = u64::try_from(stat.st_size).unwrap_or(0).max(1);
                self.sealed.size.bytes += bytes.div_ceil(BLOCK) * BLOCK;
                Ok(())
            }
            FileType::Symlink => self.small(directory, name),
            FileType::CharacterDevice if stat.st_rdev == 0 && self.whiteouts == Whiteouts::Keep => {
                self.small(directory, name)
            }
            _ => {
                rustix::fs::unlinkat(directory, name, AtFlags::empty()).map_err(self.failed("remove a file of"))?;
                if self.sealed.removed.len() < MAX_REMOVED {
                    self.sealed.removed.push(name.to_string_lossy().into_owned());
                }
                Ok(())
            }
        }
    }

    /// Takes over what has no bytes and no mode of its own.
    fn small(&mut self, directory: &OwnedFd, name: &CStr) -> Result<(), LayoutError> {
        self.sealed.size.bytes += BLOCK;
        self.own(directory, name)
    }

    fn own(&self, directory: &OwnedFd, name: &CStr) -> Result<(), LayoutError> {
        rustix::fs::chownat(directory, name, Some(self.uid), Some(self.gid), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(self.failed("take over a file of"))
    }

    /// Opens for a change of mode. An unprivileged service cannot open what its owner bits forbid, so it grants them first;
    /// the entry was just seen to be no link, and nothing else writes the tree.
    fn open(&self, directory: &OwnedFd, name: &CStr, mode: Mode, extra: OFlags) -> Result<OwnedFd, LayoutError> {
        let needed = if extra.contains(OFlags::DIRECTORY) { Mode::RWXU } else { Mode::RUSR };
        if !mode.contains(needed) && !self.uid.is_root() {
            rustix::fs::chmodat(directory, name, mode | needed, AtFlags::empty())
                .map_err(self.failed("set the mode of a file of"))?;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | extra;
        rustix::fs::openat(directory, name, flags, Mode::empty()).map_err(self.failed("open a file of"))
    }

    fn failed(&self, action: &'static str) -> impl Fn(Errno) -> LayoutError + use<> {
        let root = self.root.to_owned();
        move |error| LayoutError::io(action, &root, error.into())
    }
}

/// What lies at a path beneath a tree, if anything does; no link is followed, so nothing lies behind one.
pub(super) fn is_there(tree: &Path, path: &str) -> Result<Option<FileType>, LayoutError> {
    let failed = |source| LayoutError::io("look beneath", tree, source);
    let found = open_beneath(tree, path, OFlags::PATH | OFlags::NOFOLLOW).map_err(failed)?;
    let stat = found.map(rustix::fs::fstat).transpose().map_err(|error| failed(error.into()))?;
    Ok(stat.map(|stat| FileType::from_raw_mode(stat.st_mode)))
}
