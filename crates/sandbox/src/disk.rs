//! How much a directory holds, for accounting where the file system has no project quota.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::launcher::ordinary;
use crate::message::{AtStep, Failure, Step};

/// Directories deeper than this are not entered: each level of a walk holds a descriptor, and a tenant
/// decides how deep its tree is.
const DEPTH_LIMIT: usize = 128;

/// What a walk found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes allocated on disk, hard links counted once.
    pub bytes: u64,
    /// Files, directories and links beneath the directory, itself included.
    pub inodes: u64,
    /// Directories that were too deep to enter. Anything but 0 means the true usage is larger; treat
    /// it as over the quota.
    pub unvisited: u64,
}

/// Walks beneath `directory` without following links and without leaving its file system. Entries
/// that vanish during the walk are not counted.
///
/// # Errors
/// When the directory itself cannot be opened, or the kernel refuses a read.
pub fn usage(directory: &Path) -> io::Result<Usage> {
    let root = rustix::fs::openat(CWD, directory, FLAGS, Mode::empty())?;
    let stat = rustix::fs::fstat(&root)?;
    let mut walk = Walk { device: stat.st_dev, seen: HashSet::new(), usage: Usage::default() };
    walk.count(&stat);
    walk.enter(&root, 0)?;
    Ok(walk.usage)
}

/// The same for several directories together, by a launcher in a user namespace of its own, for a service that is an ordinary
/// user: there its files stay open to it whatever mode a program in a sandbox gave them. `launcher` is the binary that calls
/// [`crate::launcher_main`].
///
/// # Errors
/// When the launcher cannot be run or makes no namespace, or when one of the directories cannot be walked.
pub fn usage_as_owner(launcher: &Path, directories: &[PathBuf]) -> io::Result<Usage> {
    let mut command = Command::new(launcher);
    crate::launcher::named_as_launcher(&mut command)
        .arg(MEASURE_ARGUMENT)
        .args(directories)
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let said = command.output()?;
    let found: Result<Usage, Failure> = serde_json::from_slice(&said.stdout)?;
    found.map_err(|failure| {
        let kind = failure.errno.map_or(io::ErrorKind::Other, |errno| io::Error::from_raw_os_error(errno).kind());
        io::Error::new(kind, failure)
    })
}

/// Second argument of a launcher that shall measure directories instead of making a sandbox.
pub(crate) const MEASURE_ARGUMENT: &str = "measure";

/// What such a launcher does.
pub(crate) fn measure(directories: impl Iterator<Item = PathBuf>) -> Result<Usage, Failure> {
    if !rustix::process::geteuid().is_root() {
        ordinary::enter_own_namespaces()?;
    }
    let mut total = Usage::default();
    for directory in directories {
        let one = usage(&directory).at(Step::Source, directory.display())?;
        total.bytes += one.bytes;
        total.inodes += one.inodes;
        total.unvisited += one.unvisited;
    }
    Ok(total)
}

const FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

struct Walk {
    device: u64,
    seen: HashSet<u64>,
    usage: Usage,
}

impl Walk {
    fn enter(&mut self, directory: &OwnedFd, depth: usize) -> io::Result<()> {
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let stat = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                outcome => outcome?,
            };
            if stat.st_dev != self.device {
                continue;
            }
            self.count(&stat);
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                continue;
            }
            if depth == DEPTH_LIMIT {
                self.usage.unvisited += 1;
                continue;
            }
            match rustix::fs::openat(directory, name, FLAGS, Mode::empty()) {
                // Replaced or removed meanwhile.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                outcome => self.enter(&outcome?, depth + 1)?,
            }
        }
        Ok(())
    }

    fn count(&mut self, stat: &rustix::fs::Stat) {
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if !is_directory && stat.st_nlink > 1 && !self.seen.insert(stat.st_ino) {
            return;
        }
        self.usage.inodes += 1;
        self.usage.bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_counted_and_never_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let tree = scratch.path().join("tree");
        fs::create_dir(&tree).unwrap();
        fs::create_dir(scratch.path().join("elsewhere")).unwrap();
        fs::write(scratch.path().join("elsewhere/large"), vec![1; 1 << 20]).unwrap();
        fs::write(tree.join("file"), vec![1; 64 << 10]).unwrap();
        fs::hard_link(tree.join("file"), tree.join("again")).unwrap();
        symlink(scratch.path().join("elsewhere"), tree.join("link")).unwrap();
        let mut deep = tree.clone();
        for _ in 0..DEPTH_LIMIT + 2 {
            deep.push("d");
            fs::create_dir(&deep).unwrap();
        }
        let found = usage(&tree).unwrap();
        assert_eq!(found.inodes, 1 + 1 + 1 + DEPTH_LIMIT as u64 + 1, "{found:?}");
        assert_eq!(found.unvisited, 1);
        assert!(found.bytes >= 64 << 10 && found.bytes < 1 << 20, "{found:?}");
        assert!(usage(&tree.join("link")).is_err(), "the start is not followed either");
    }
}
