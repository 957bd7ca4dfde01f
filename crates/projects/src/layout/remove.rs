//! Removing trees that strangers made.
//!
//! `std::fs::remove_dir_all` holds a descriptor per level and fails on directories that forbid their owner to write, so a
//! step could leave something that is never removed. Here a directory beyond a fixed depth is first moved to the top.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::LayoutError;

const MAX_DEPTH: usize = 64;

/// Removes a directory with everything beneath it, whatever its depth and modes. Links are removed, never followed. Removing
/// what is not there succeeds. A failed or interrupted removal can be repeated.
pub fn remove_tree(path: &Path) -> Result<(), LayoutError> {
    let failed = |error: Errno| LayoutError::io("remove", path, error.into());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(root) => root,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(CWD, path, Mode::RWXU, AtFlags::empty()).map_err(failed)?;
            rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(failed)?
        }
        Err(error) => return Err(failed(error)),
    };
    let mut remover = Remover { root: &root, hoisted: 0 };
    loop {
        let before = remover.hoisted;
        remover.empty(&root, 0).map_err(failed)?;
        if remover.hoisted == before {
            break;
        }
    }
    rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR).map_err(failed)
}

struct Remover<'a> {
    root: &'a OwnedFd,
    hoisted: u64,
}

impl Remover<'_> {
    fn empty(&mut self, directory: &OwnedFd, depth: usize) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(rustix::fs::fstat(directory)?.st_mode);
        if !mode.contains(Mode::RWXU) {
            rustix::fs::fchmod(directory, Mode::RWXU)?;
        }
        // The names are taken first: removing while reading may skip some.
        let mut names = Vec::new();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                names.push((name.to_owned(), entry.file_type()));
            }
        }
        for (name, kind) in names {
            self.entry(directory, &name, kind, depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, directory: &OwnedFd, name: &CStr, kind: FileType, depth: usize) -> Result<(), Errno> {
        let kind = if kind == FileType::Unknown {
            FileType::from_raw_mode(rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
        } else {
            kind
        };
        if kind != FileType::Directory {
            return rustix::fs::unlinkat(directory, name, AtFlags::empty());
        }
        if depth >= MAX_DEPTH {
            return self.hoist(directory, name);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inner = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
            Err(Errno::ACCESS) => {
                rustix::fs::chmodat(directory, name, Mode::RWXU, AtFlags::empty())?;
                rustix::fs::openat(directory, name, flags, Mode::empty())?
            }
            opened => opened?,
        };
        self.empty(&inner, depth + 1)?;
        rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)
    }

    /// Moves a directory to the top, where the next round finds it.
    fn hoist(&mut self, directory: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        loop {
            self.hoisted += 1;
            let to = CString::new(format!(".removing-{}", self.hoisted)).map_err(|_| Errno::INVAL)?;
            match rustix::fs::renameat(directory, name, self.root, &to) {
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                other => return other,
            }
        }
    }
}
