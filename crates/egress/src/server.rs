//! Sockets that the proxy binds itself, inside the process that makes the sandboxes. A service that keeps the proxy in a
//! process of its own uses [`crate::process`] instead.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stead_outbound::Dialer;
use tokio::net::UnixListener;

use crate::journal::Journal;
use crate::listening::Listening;
use crate::shares::Shares;
use crate::{Policy, Stats};

/// Any uid may connect: who sees the socket at all is decided by the directory and the mounts it lies in.
const SOCKET_MODE: u32 = 0o666;

/// Opens the proxy's sockets.
#[derive(Clone, Debug)]
pub struct Egress {
    dialer: Arc<Dialer>,
    shares: Arc<Shares>,
}

/// The socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("could not {action} the egress socket {}", path.display())]
pub struct OpenError {
    action: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl Egress {
    /// A proxy that dials through `dialer`. Connections are bounded by sandbox alone here: what descriptors this process has, and
    /// needs for other things, is not the proxy's to know.
    pub fn new(dialer: Arc<Dialer>) -> Self {
        Self { dialer, shares: Arc::new(Shares::new(None)) }
    }

    /// Listens on a unix socket at `path` (at most 107 bytes; mode 0666; a stale socket there is replaced, its
    /// directory must exist) and serves it under `policy` until the handle is closed or dropped. Call it inside a
    /// Tokio runtime.
    pub fn open(&self, path: impl Into<PathBuf>, policy: Policy) -> Result<EgressHandle, OpenError> {
        let path = path.into();
        let failed = |action, source| OpenError { action, path: path.clone(), source };
        remove_stale(&path).map_err(|error| failed("replace", error))?;
        let listener = UnixListener::bind(&path).map_err(|error| failed("bind", error))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(SOCKET_MODE))
            .map_err(|error| failed("open up", error))?;
        let identity = identity(&path).map_err(|error| failed("inspect", error))?;
        let listening = Listening::start(listener, policy, Arc::clone(&self.dialer), &self.shares, Journal::Here);
        let file = SocketFile { path, identity };
        Ok(EgressHandle { file, listening })
    }
}

/// An open socket. Dropping it closes the socket, cuts its connections and removes the file.
#[derive(Debug)]
pub struct EgressHandle {
    file: SocketFile,
    listening: Listening,
}

impl EgressHandle {
    /// Where the socket is.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// What went through so far.
    pub fn stats(&self) -> Stats {
        self.listening.stats()
    }

    /// Closes the socket and returns when the last connection is cut, with the final numbers.
    pub async fn close(self) -> Stats {
        self.listening.close().await
    }
}

/// The socket's name, which goes when this is dropped.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode: a socket that someone opened later at the same path is not ours to remove.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "could not remove an egress socket");
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Removes a socket that a crash left behind; anything else at the path is left alone, and binding then fails.
fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
