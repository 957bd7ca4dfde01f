//! Looking beneath a directory that strangers wrote.
//!
//! A path there is theirs at every level: the last component and each one on the way may be a link to any place of this machine, so
//! none is followed, and what lies behind one is not there. `statat` with `SYMLINK_NOFOLLOW` is no such look, for it follows all but the
//! last.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Opens what lies at a relative path beneath a directory; `None` when nothing does, or nothing that is reached without a link. With
/// `O_PATH` and `O_NOFOLLOW` a link at the very end is opened itself. The directory's own path is the service's.
pub(crate) fn open_beneath(directory: &Path, path: &str, flags: OFlags) -> io::Result<Option<OwnedFd>> {
    let start = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, directory, start, Mode::empty())?;
    let resolve =
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    match rustix::fs::openat2(&root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_found_behind_a_link_at_any_level() {
        let scratch = tempfile::tempdir().unwrap();
        let (tree, outside) = (scratch.path().join("tree"), scratch.path().join("outside"));
        let parts = ["a", "b", "c", "d"];
        fs::create_dir_all(outside.join("a/b/c/d")).unwrap();
        let look = |flags| open_beneath(&tree, &parts.join("/"), flags).unwrap().is_some();
        let (read, path) = (OFlags::RDONLY | OFlags::NONBLOCK, OFlags::PATH | OFlags::NOFOLLOW);
        fs::create_dir_all(tree.join("a/b/c/d")).unwrap();
        assert!(look(read) && look(path));
        for level in 1..=parts.len() {
            let (place, last) = (parts[..level].join("/"), level == parts.len());
            // To what is there, relative and absolute; to nothing; to itself; and files in place of directories.
            let targets =
                [outside.join(&place), tree.join("own").join(&place), "/etc/shadow".into(), place.clone().into()];
            for target in targets {
                fs::remove_dir_all(&tree).unwrap();
                fs::create_dir_all(tree.join("own/a/b/c/d")).unwrap();
                fs::create_dir_all(tree.join(&place).parent().unwrap()).unwrap();
                symlink(&target, tree.join(&place)).unwrap();
                assert!(!look(read), "{place} → {}", target.display());
                assert_eq!(look(path), last, "{place} → {}", target.display());
            }
            fs::remove_file(tree.join(&place)).unwrap();
            fs::write(tree.join(&place), "").unwrap();
            assert_eq!(look(path), last, "{place} is a file");
        }
        assert!(open_beneath(&tree, "../outside/a", path).unwrap().is_none());
        symlink(&outside, scratch.path().join("start")).unwrap();
        assert!(open_beneath(&scratch.path().join("start"), "a", path).is_err(), "the start is not followed");
    }
}
