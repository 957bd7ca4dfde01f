//! The data directory, which belongs to one server process at a time.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};

/// The directory, locked until this is dropped. The kernel releases the lock when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct DataDirectory {
    path: PathBuf,
    _lock: File,
}

impl DataDirectory {
    /// Makes the directory unless it is there, for its owner alone to write, and locks it.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
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
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            // Who holds it is a courtesy; that somebody does is what matters.
            let _ = Read::by_ref(&mut lock).take(32).read_to_string(&mut holder);
            bail!("another server (process {}) uses the data directory {}", holder.trim(), path.display());
        }
        lock.set_len(0).and_then(|()| lock.rewind()).context("failed to write the lock file")?;
        writeln!(lock, "{}", std::process::id()).context("failed to write the lock file")?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_holder_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        let first = DataDirectory::open(&path).unwrap();
        let refused = DataDirectory::open(&path).unwrap_err().to_string();
        assert!(refused.contains(&std::process::id().to_string()), "{refused}");
        drop(first);
        DataDirectory::open(&path).unwrap();
    }
}
