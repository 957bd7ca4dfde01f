//! Where sockets lie while a sandbox runs.
//!
//! A socket's address holds 107 bytes; the directory may have any path, so sockets are named through a descriptor of it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::removal;

/// Process 1 listens here.
pub(crate) const RUNTIME_SOCKET: &str = "runtime.sock";
/// The egress proxy listens here.
pub(crate) const EGRESS_SOCKET: &str = "egress.sock";

/// The run directory, kept open.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl RunDirectory {
    /// Opens the directory, making it when it is missing.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { path: path.to_path_buf(), descriptor })
    }

    /// Where a sandbox's things lie, for other processes.
    pub(crate) fn of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A socket of a sandbox, short enough for an address; for this process alone, while `self` lives.
    pub(crate) fn socket(&self, name: &str, socket: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}/{socket}", self.descriptor.as_raw_fd()))
    }

    /// Makes a sandbox's directory anew.
    pub(crate) fn make(&self, name: &str) -> io::Result<()> {
        removal::remove(&self.of(name))?;
        DirBuilder::new().mode(0o700).create(self.of(name))
    }

    /// Removes a sandbox's directory; one that does not exist is no error.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        removal::remove(&self.of(name))
    }

    /// The names of all sandboxes that have a directory.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.path)?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }
}
