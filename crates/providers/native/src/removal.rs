//! Removing what a tenant made: any names, any modes, any depth; no link is followed.
//!
//! Nothing may be running in the tree. A directory that lies too deep is moved to the top of the tree first, so the number of
//! open descriptors does not depend on what a tenant built.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::shut;

/// Each level holds two descriptors.
const DEPTH_LIMIT: usize = 32;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a file or a whole tree; what is not there is no error. The way to it must belong to the service.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a root cannot be removed"));
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = match rustix::fs::open(parent, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        outcome => outcome?,
    };
    let open = || rustix::fs::openat(&parent, name, DIRECTORY, Mode::empty());
    match shut::open(parent.as_fd(), name, open) {
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => Ok(rustix::fs::unlinkat(&parent, name, AtFlags::empty())?),
        Err(error) => Err(error.into()),
        Ok(top) => {
            empty(&top)?;
            match rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR) {
                Err(Errno::NOENT) => Ok(()),
                outcome => Ok(outcome?),
            }
        }
    }
}

/// Removes everything in a directory that stays itself.
pub(crate) fn empty_directory(path: &Path) -> io::Result<()> {
    match shut::open(CWD, path, || rustix::fs::open(path, DIRECTORY, Mode::empty())) {
        Err(Errno::NOENT) => Ok(()),
        outcome => Ok(empty(&outcome?)?),
    }
}

fn empty(top: &OwnedFd) -> rustix::io::Result<()> {
    let mut removal = Removal { top, moved: 0 };
    while removal.pass(top.as_fd(), 0)? {}
    Ok(())
}

struct Removal<'top> {
    top: &'top OwnedFd,
    /// Numbers the directories that were moved up.
    moved: u64,
}

impl Removal<'_> {
    /// Removes what one reading of the directory shows; answers whether it showed anything, for then there may be more.
    fn pass(&mut self, directory: BorrowedFd<'_>, depth: usize) -> rustix::io::Result<bool> {
        let mut found = false;
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            found = true;
            if entry.file_type() != FileType::Directory {
                match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => continue,
                    // A file system that does not tell kinds apart while listing.
                    Err(Errno::ISDIR) => {}
                    Err(error) => return Err(error),
                }
            }
            // Also where it is only moved: what lies in it is told that it has another parent, which takes the right to write.
            let child = shut::open(directory, name, || rustix::fs::openat(directory, name, DIRECTORY, Mode::empty()))?;
            if depth == DEPTH_LIMIT {
                self.move_up(directory, name)?;
                continue;
            }
            while self.pass(child.as_fd(), depth + 1)? {}
            rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?;
        }
        Ok(found)
    }

    fn move_up(&mut self, directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
        loop {
            self.moved += 1;
            match rustix::fs::renameat(directory, name, self.top, format!("stead-removing-{}", self.moved)) {
                // The tenant used the name.
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR) => {}
                outcome => return outcome,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn hostile_trees_go_and_what_links_name_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let (tree, outside) = (scratch.path().join("tree"), scratch.path().join("outside"));
        fs::create_dir(&tree).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "").unwrap();
        symlink(&outside, tree.join("link")).unwrap();
        symlink("nowhere", tree.join("broken")).unwrap();
        fs::write(tree.join(OsStr::from_bytes(b"\xff\n -rf *")), "").unwrap();
        fs::write(tree.join("stead-removing-1"), "taken").unwrap();
        fs::create_dir_all(tree.join("stead-removing-2/full")).unwrap();
        for number in 0..1000 {
            fs::write(tree.join(number.to_string()), "").unwrap();
        }
        // Deeper than a removal goes down: made step by step from inside.
        let mut level = rustix::fs::open(&tree, DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..400 {
            rustix::fs::mkdirat(&level, "deep", Mode::from_raw_mode(0o700)).unwrap();
            let next = rustix::fs::openat(&level, "deep", DIRECTORY, Mode::empty()).unwrap();
            rustix::fs::symlinkat(&outside, &next, "link").unwrap();
            level = next;
        }
        drop(level);
        let shut = |path: &str| {
            fs::create_dir_all(tree.join(path).join("inner")).unwrap();
            fs::write(tree.join(path).join("inner/file"), "").unwrap();
            for path in [path.to_owned() + "/inner", path.to_owned()] {
                fs::set_permissions(tree.join(path), fs::Permissions::from_mode(0o000)).unwrap();
            }
        };
        shut("shut");
        shut(&"d/".repeat(DEPTH_LIMIT));
        fs::set_permissions(&tree, fs::Permissions::from_mode(0o000)).unwrap();
        remove(&tree).unwrap();
        assert!(!tree.exists() && outside.join("kept").exists());
        remove(&tree).unwrap();
        symlink(&outside, &tree).unwrap();
        remove(&tree).unwrap();
        assert!(fs::symlink_metadata(&tree).is_err() && outside.join("kept").exists());
    }
}
