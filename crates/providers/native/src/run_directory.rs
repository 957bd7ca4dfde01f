//! Where sockets lie while a sandbox runs.
//!
//! A socket's address holds 107 bytes; the directory may have any path, so sockets are named through a descriptor of it.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::DupFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::removal;

/// Process 1 listens here.
pub(crate) const RUNTIME_SOCKET: &str = "runtime.sock";
/// What a sandbox sees of its run directory: the egress proxy listens in there. A directory, so that the next service can put
/// another socket in the place of the last one's.
pub(crate) const EGRESS_DIRECTORY: &str = "egress";
/// The egress proxy's socket in [`EGRESS_DIRECTORY`].
pub(crate) const EGRESS_SOCKET: &str = "proxy.sock";

/// Where a socket is made that takes the place of another.
const NEXT_SOCKET: &str = "next.sock";
const BACKLOG: i32 = 128;

/// The run directory, kept open.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    path: PathBuf,
    /// Its number stays the same, whatever it is a descriptor of.
    descriptor: Mutex<OwnedFd>,
    number: RawFd,
}

/// Opens the directory, making it when it is missing.
fn opened(path: &Path) -> io::Result<OwnedFd> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

impl RunDirectory {
    /// Opens the directory, making it when it is missing.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let descriptor = opened(path)?;
        let number = descriptor.as_raw_fd();
        Ok(Self { path: path.to_path_buf(), descriptor: Mutex::new(descriptor), number })
    }

    /// Makes the directory again after somebody has removed it. What was in it is lost, and the next things can be made.
    fn restore(&self) -> io::Result<()> {
        let mut descriptor = self.descriptor.lock().unwrap_or_else(PoisonError::into_inner);
        tracing::error!(path = %self.path.display(), "the run directory was removed while the server runs; it is made again");
        Ok(rustix::io::dup3(opened(&self.path)?, &mut descriptor, DupFlags::CLOEXEC)?)
    }

    /// Where a sandbox's things lie, for other processes.
    pub(crate) fn of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A socket of a sandbox, short enough for an address; for this process alone, while `self` lives.
    pub(crate) fn socket(&self, name: &str, socket: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}/{socket}", self.number))
    }

    /// Listens on a socket that nobody has bound, with the mode that the process gives to what it makes.
    pub(crate) fn listen(&self, name: &str, socket: &str) -> io::Result<OwnedFd> {
        // The directory is the service's own, so outside of sandboxes the socket's mode does not matter.
        let address = SocketAddrUnix::new(self.socket(name, socket))?;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(socket)
    }

    /// Listens where a sandbox sends its requests, in the place of whoever did so before. Connections that were made to that one
    /// stay.
    pub(crate) fn listen_for_egress(&self, name: &str) -> io::Result<OwnedFd> {
        let inner = format!("{name}/{EGRESS_DIRECTORY}");
        let directory = self.of(&inner);
        match DirBuilder::new().mode(0o755).create(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // Who sees it at all is decided by the mounts.
        fs::set_permissions(&directory, Permissions::from_mode(0o755))?;
        let next = directory.join(NEXT_SOCKET);
        removal::remove(&next)?;
        let listener = self.listen(&inner, NEXT_SOCKET)?;
        fs::set_permissions(&next, Permissions::from_mode(0o666))?;
        fs::rename(&next, directory.join(EGRESS_SOCKET))?;
        Ok(listener)
    }

    /// Makes a sandbox's directory anew.
    pub(crate) fn make(&self, name: &str) -> io::Result<()> {
        removal::remove(&self.of(name))?;
        let make = || DirBuilder::new().mode(0o700).create(self.of(name));
        match make() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.restore().and_then(|()| make()),
            made => made,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_was_removed_is_made_again() {
        let root = tempfile::tempdir().unwrap();
        let run = RunDirectory::open(&root.path().join("run")).unwrap();
        run.make("e0").unwrap();
        let before = run.socket("e0", RUNTIME_SOCKET);
        fs::remove_dir_all(root.path().join("run")).unwrap();
        run.make("e0").unwrap();
        assert_eq!(run.socket("e0", RUNTIME_SOCKET), before);
        let _listening = run.listen("e0", RUNTIME_SOCKET).unwrap();
        assert!(root.path().join("run/e0").join(RUNTIME_SOCKET).exists());
    }
}
