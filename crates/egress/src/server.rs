//! Sockets: one per sandbox, opened and closed by whoever makes the sandbox.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use stead_outbound::Dialer;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::connection::{Shared, serve};
use crate::counters::Counters;
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::{Policy, RefusalCode, Stats};

/// Any uid may connect: who sees the socket at all is decided by the directory and the mounts it lies in.
const SOCKET_MODE: u32 = 0o666;
/// What a sandbox may leave unread, in bytes; the default keeps a bulk download waiting for its reader.
const SEND_BUFFER: usize = 1024 * 1024;
/// Pause after a failed accept, which usually means that descriptors are used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Opens the proxy's sockets.
#[derive(Clone, Debug)]
pub struct Egress {
    dialer: Arc<Dialer>,
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
    /// A proxy that dials through `dialer`.
    pub fn new(dialer: Arc<Dialer>) -> Self {
        Self { dialer }
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
        let counters = Arc::new(Counters::default());
        let dial_policy = policy.dial_policy();
        let (dialer, shared_counters) = (Arc::clone(&self.dialer), Arc::clone(&counters));
        let shared = Arc::new(Shared {
            policy,
            dial_policy,
            dialer,
            counters: shared_counters,
            refusal_lines: Lines::default(),
        });
        let stop = CancellationToken::new();
        let task = tokio::spawn(accept(listener, shared, stop.clone()));
        Ok(EgressHandle { path, identity, counters, stop, task: Some(task) })
    }
}

/// An open socket. Dropping it closes the socket, cuts its connections and removes the file.
#[derive(Debug)]
pub struct EgressHandle {
    path: PathBuf,
    /// Device and inode: a socket that someone opened later at the same path is not ours to remove.
    identity: (u64, u64),
    counters: Arc<Counters>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl EgressHandle {
    /// Where the socket is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What went through so far.
    pub fn stats(&self) -> Stats {
        self.counters.stats()
    }

    /// Closes the socket and returns when the last connection is cut, with the final numbers.
    pub async fn close(mut self) -> Stats {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // The task ends by itself; a panic in it has nothing to tell that matters now.
            let _ = task.await;
        }
        self.counters.stats()
    }
}

impl Drop for EgressHandle {
    fn drop(&mut self) {
        self.stop.cancel();
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

/// Accepts until stopped. The set of connections dies with this task, and every connection with the set.
async fn accept(listener: UnixListener, shared: Arc<Shared>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {
                shared.counters.active.store(connections.len() as u64, Relaxed);
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    shared.counters.connections.fetch_add(1, Relaxed);
                    // Only speed is lost where the kernel grants less.
                    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER);
                    if connections.len() >= shared.policy.limits.connections {
                        turn_away(&stream, &shared);
                    } else {
                        connections.spawn(serve(stream, Arc::clone(&shared)));
                        shared.counters.active.store(connections.len() as u64, Relaxed);
                    }
                }
                Err(error) => {
                    tracing::warn!(label = shared.policy.label, %error, "could not accept an egress connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    connections.shutdown().await;
    shared.counters.active.store(0, Relaxed);
}

/// Answers without waiting: a client beyond the limit must not cost a task.
fn turn_away(stream: &UnixStream, shared: &Shared) {
    shared.note(RefusalCode::TooManyConnections, None);
    // A fresh socket has room for the answer; if not, the close alone has to do.
    let _ = stream.try_write(&Refusal::from(RefusalCode::TooManyConnections).answer());
}
