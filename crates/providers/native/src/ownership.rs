//! Handing directories to a sandbox's user and taking them back.
//!
//! Nothing may be running in a tree meanwhile. A walk goes down by name, in a way that follows no link and leaves no file system,
//! and up by `..`, where it must find the directory that it came from. So it holds two descriptors whatever the depth: a
//! tree that is too deep for anything else must still be taken back, or its user would stay its owner for ever.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid};
use rustix::io::Errno;

use crate::shut;

/// Set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Makes the host user `id` (and the group of that number) the owner of a directory and what is in it; without one, the service is the
/// sandbox's user, and owns it already. Files with several names go along if all their names are in it, as those that an earlier step
/// linked in an installer cache; others are left alone, because another of the names may be part of something sealed.
pub(crate) fn hand_over(directory: &Path, id: Option<u32>) -> io::Result<()> {
    let root = open(directory)?;
    let Some(id) = id else { return Ok(()) };
    let (uid, gid) = (Some(Uid::from_raw(id)), Some(Gid::from_raw(id)));
    rustix::fs::fchown(&root, uid, gid)?;
    // How many names of each such file were not seen.
    let mut elsewhere = HashMap::new();
    walk(&root, |parent, name, stat| {
        if has_other_names(stat) {
            let unseen = elsewhere.entry(stat.st_ino).or_insert(stat.st_nlink);
            *unseen = unseen.saturating_sub(1);
            return Ok(());
        }
        rustix::fs::chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
    })?;
    if elsewhere.is_empty() {
        return Ok(());
    }
    // Only now is it known which names are in here. One walk stays on one file system, so the inode tells files apart.
    walk(&root, |parent, name, stat| {
        if has_other_names(stat) && elsewhere.get(&stat.st_ino) == Some(&0) {
            rustix::fs::chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    })
}

fn has_other_names(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) != FileType::Directory && stat.st_nlink > 1
}

/// Makes the service the owner of a directory and what is in it again, without set-id bits. One that is gone needs nothing.
pub(crate) fn take_back(directory: &Path) -> io::Result<()> {
    let root = match open(directory) {
        Err(Errno::NOENT) => return Ok(()),
        outcome => outcome?,
    };
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let change = |parent: BorrowedFd<'_>, name: &CStr, stat: &Stat| {
        if stat.st_uid == uid.as_raw() && stat.st_gid == gid.as_raw() {
            return Ok(());
        }
        rustix::fs::chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
    };
    let mode = rustix::fs::fstat(&root)?.st_mode;
    if mode & SET_ID != 0 {
        rustix::fs::fchmod(&root, Mode::from_raw_mode(mode & 0o7777 & !SET_ID))?;
    }
    rustix::fs::fchown(&root, Some(uid), Some(gid))?;
    walk(&root, |parent, name, stat| {
        // The bits first: a file that is the service's own must not have them for an instant.
        if stat.st_mode & SET_ID != 0 && FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 & !SET_ID);
            rustix::fs::chmodat(parent, name, mode, AtFlags::empty())?;
        }
        change(parent, name, stat)
    })
}

fn open(directory: &Path) -> rustix::io::Result<OwnedFd> {
    shut::open(CWD, directory, || rustix::fs::openat(CWD, directory, DIRECTORY, Mode::empty()))
}

/// A directory on the way from the root to where a walk stands.
struct Level {
    /// Device and inode.
    identity: (u64, u64),
    /// Directories in it that were not entered yet.
    waiting: Vec<CString>,
}

fn walk(
    root: &OwnedFd,
    mut visit: impl FnMut(BorrowedFd<'_>, &CStr, &Stat) -> rustix::io::Result<()>,
) -> io::Result<()> {
    let device = rustix::fs::fstat(root)?.st_dev;
    let resolve =
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let mut current = rustix::fs::openat(root, c".", DIRECTORY, Mode::empty())?;
    let mut levels = vec![list(&current, device, &mut visit)?];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.waiting.pop() {
            let open = || rustix::fs::openat2(&current, name.as_c_str(), DIRECTORY, Mode::empty(), resolve);
            current = shut::open(current.as_fd(), name.as_c_str(), open)?;
            levels.push(list(&current, device, &mut visit)?);
            continue;
        }
        levels.pop();
        let Some(parent) = levels.last() else { break };
        current = rustix::fs::openat(&current, c"..", DIRECTORY, Mode::empty())?;
        if identity(&current)? != parent.identity {
            return Err(io::Error::other("a directory was moved while its tree was walked"));
        }
    }
    Ok(())
}

/// Visits what is in one directory.
fn list(
    directory: &OwnedFd,
    device: u64,
    visit: &mut impl FnMut(BorrowedFd<'_>, &CStr, &Stat) -> rustix::io::Result<()>,
) -> io::Result<Level> {
    let mut level = Level { identity: identity(directory)?, waiting: Vec::new() };
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if stat.st_dev != device {
            continue;
        }
        visit(directory.as_fd(), name, &stat)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            level.waiting.push(name.to_owned());
        }
    }
    Ok(level)
}

fn identity(directory: &OwnedFd) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(directory)?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_tree_changes_hands_and_nothing_beside_it_does() {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("STEAD_NO_SKIP").is_none(), "root is needed");
            println!("skipped: needs root");
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let (tree, outside) = (scratch.path().join("tree"), scratch.path().join("outside"));
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::write(&outside, "").unwrap();
        fs::write(tree.join("a/b/file"), "").unwrap();
        for name in ["shared", "a/shared"] {
            fs::hard_link(&outside, tree.join(name)).unwrap();
        }
        fs::write(tree.join("linked"), "").unwrap();
        fs::hard_link(tree.join("linked"), tree.join("a/b/linked")).unwrap();
        symlink(&outside, tree.join("a/link")).unwrap();
        let owner = |path: &Path| {
            fs::symlink_metadata(path).map(|found| (found.uid(), found.gid(), found.mode() & 0o7777)).unwrap()
        };

        hand_over(&tree, Some(1_999_000_000)).unwrap();
        for name in ["", "a", "a/b", "a/b/file", "a/link", "linked"] {
            assert_eq!(owner(&tree.join(name)).0, 1_999_000_000, "{name}");
        }
        assert_eq!(owner(&outside).0, 0, "another name of a shared file is not given away");

        fs::set_permissions(tree.join("a/b/file"), fs::Permissions::from_mode(0o6755)).unwrap();
        fs::set_permissions(tree.join("a"), fs::Permissions::from_mode(0o3777)).unwrap();
        take_back(&tree).unwrap();
        assert_eq!(owner(&tree.join("a/b/file")), (0, 0, 0o755));
        assert_eq!(owner(&tree.join("a")), (0, 0, 0o1777));
        assert_eq!((owner(&tree.join("a/link")).0, owner(&tree.join("linked")).0), (0, 0));
        assert!(hand_over(&tree.join("a/link"), Some(5)).is_err(), "a link is no directory");
    }

    /// Deeper than a path can say and wider than one chain.
    #[test]
    fn a_tree_of_any_depth_is_taken_back() {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("STEAD_NO_SKIP").is_none(), "root is needed");
            println!("skipped: needs root");
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let tree = scratch.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let name = CString::new("d".repeat(200)).unwrap();
        let mut deepest = rustix::fs::openat(CWD, &tree, DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..100 {
            for child in [name.as_c_str(), c"side"] {
                rustix::fs::mkdirat(&deepest, child, Mode::from_raw_mode(0o000)).unwrap();
            }
            deepest = rustix::fs::openat(&deepest, name.as_c_str(), DIRECTORY, Mode::empty()).unwrap();
        }
        let owner = || rustix::fs::fstat(&deepest).unwrap().st_uid;
        hand_over(&tree, Some(1_999_000_000)).unwrap();
        assert_eq!(owner(), 1_999_000_000);
        take_back(&tree).unwrap();
        assert_eq!(owner(), 0);
        crate::removal::remove(&tree).unwrap();
    }
}
