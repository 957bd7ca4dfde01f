//! The data directory, which belongs to one server process at a time.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use rustix::fs::{FlockOperation, flock};

/// The directory, locked until this is dropped. The kernel releases the lock when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct DataDirectory {
    path: PathBuf,
    _lock: File,
}

/// What came of claiming the directory.
#[derive(Debug)]
pub(super) enum Claim {
    /// It is ours.
    Ours(DataDirectory),
    /// Another process, named by its number, has it.
    Held(String),
}

impl DataDirectory {
    /// Makes the directory unless it is there, for its owner alone to write, and locks it.
    pub(super) fn claim(path: &Path) -> anyhow::Result<Claim> {
        // Sandboxes of other user ids reach what is mounted from beneath, so the directory may be passed through.
        DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(path)
            .with_context(|| format!("failed to make the data directory {}", path.display()))?;
        let file = path.join("lock");
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&file)
            .with_context(|| format!("failed to open {}", file.display()))?;
        // Whoever started on it first owns what is in it. Root may open all of that, and would leave behind what its owner cannot.
        let owner = lock.metadata().with_context(|| format!("failed to look at {}", file.display()))?.uid();
        let user = rustix::process::geteuid().as_raw();
        ensure!(
            owner == user,
            "the data directory {} belongs to user {owner}, and this is user {user}: start the server as its owner",
            path.display()
        );
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            // Who holds it is a courtesy; that somebody does is what matters.
            let _ = Read::by_ref(&mut lock).take(32).read_to_string(&mut holder);
            return Ok(Claim::Held(holder.trim().to_owned()));
        }
        lock.rewind().context("failed to write the lock file")?;
        // Written over what is there, which needs no room on a full disk, and cut to length then.
        let number = format!("{}\n", std::process::id());
        match lock.write_all(number.as_bytes()).and_then(|()| lock.set_len(number.len() as u64)) {
            Err(error) if error.kind() != ErrorKind::StorageFull => {
                return Err(error).context("failed to write the lock file");
            }
            _ => {}
        }
        Ok(Claim::Ours(Self { path: path.to_owned(), _lock: lock }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Less than this is no room.
const ROOM: u64 = 64 << 10;

/// Says of an error that the disk beneath the data directory is full, if it is: what fails first may be anything.
pub(super) fn say_if_full(error: anyhow::Error, path: &Path) -> anyhow::Error {
    let is_full = rustix::fs::statvfs(path).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < ROOM);
    if !is_full {
        return error;
    }
    error.context(format!(
        "no room is left on the disk of the data directory {}; make some and start again",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_holder_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        let claimed = || DataDirectory::claim(&path).unwrap();
        let Claim::Ours(first) = claimed() else { panic!("nobody else has it") };
        let Claim::Held(holder) = claimed() else { panic!("it was claimed twice") };
        assert_eq!(holder, std::process::id().to_string());
        drop(first);
        assert!(matches!(claimed(), Claim::Ours(_)));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(path.join("lock"), Some(54_321), None).unwrap();
            let refused = DataDirectory::claim(&path).unwrap_err().to_string();
            assert!(refused.contains("belongs to user 54321"), "{refused}");
        }
    }
}
