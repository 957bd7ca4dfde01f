//! The socket over which another server process of the same data directory takes this one's place.
//!
//! ```text
//! successor                       this process
//!   "take-over 1\n" ────────────▶
//!                   ◀────────────  {"process":…,"grace_ms":…}\n + the listening socket, and that of the numbers
//!   finds out whether it can serve
//!   "now\n"         ────────────▶  stops accepting
//!   waits for the lock             drains, hands over, releases the lock, ends
//! ```
//!
//! Nothing changes before the third message, so that a successor who has lost his patience meanwhile ends nothing.
//! Connections made in between wait in the listening socket's queue, since at least one of the two always holds it. Only root and
//! the user that this process runs as are heard; the socket lies in the run directory, which is theirs alone.

use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::fs::{Mode, OFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::{UnixListener, UnixStream};

const NAME: &str = "control.sock";
/// What a successor says, with the generation of this conversation.
const REQUEST: &[u8] = b"take-over 1\n";
/// What he says when he has the listening socket.
const NOW: &[u8] = b"now\n";
/// The longest that either side waits for the other one's words.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many bytes an answer has at most.
const ANSWER: usize = 4096;

/// What a successor is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Leaving {
    /// The process that goes.
    pub(super) process: u32,
    /// How long its requests may take to finish.
    pub(super) grace_ms: u64,
}

/// The socket of a process that serves.
#[derive(Debug)]
pub(super) struct Control {
    socket: UnixListener,
    path: PathBuf,
    /// The main one first.
    listeners: Vec<OwnedFd>,
    leaving: Leaving,
}

/// How many listening sockets there are at most.
const LISTENERS: usize = 2;

/// A socket's address holds 107 bytes; the directory may have any path, so the socket is named through a descriptor of it.
fn named(run: &Path) -> std::io::Result<(OwnedFd, PathBuf)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(run, flags, Mode::empty())?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd()));
    Ok((directory, path))
}

impl Control {
    /// Listens in the run directory for a successor, who will be given `listener`, and `watching` where there is one. The caller holds the data directory's lock, so
    /// what lies there from earlier belongs to nobody.
    pub(super) fn open(
        run: &Path,
        listener: &impl AsFd,
        watching: Option<&std::net::TcpListener>,
        grace: Duration,
    ) -> anyhow::Result<Self> {
        let path = run.join(NAME);
        let sockets = std::iter::once(listener.as_fd()).chain(watching.map(AsFd::as_fd));
        let listeners = sockets.map(|socket| socket.try_clone_to_owned()).collect::<std::io::Result<_>>();
        let listeners = listeners.context("failed to keep the listening sockets")?;
        let bind = || {
            let (_directory, address) = named(run)?;
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let socket = UnixListener::bind(address)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            Ok(socket)
        };
        let socket = bind().with_context(|| format!("failed to listen on {}", path.display()))?;
        let leaving = Leaving { process: std::process::id(), grace_ms: grace.as_millis() as u64 };
        Ok(Self { socket, path, listeners, leaving })
    }

    /// Waits until another process has asked for this one's place and has the listening socket: this one is to go.
    pub(super) async fn asked(&self) {
        loop {
            let stream = match self.socket.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "the control socket does not accept");
                    tokio::time::sleep(PATIENCE).await;
                    continue;
                }
            };
            match tokio::time::timeout(PATIENCE, self.answer(stream)).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => tracing::warn!("a question on the control socket was refused: {error:#}"),
                Err(_) => tracing::warn!("a connection to the control socket said nothing"),
            }
        }
    }

    async fn answer(&self, mut stream: UnixStream) -> anyhow::Result<()> {
        let peer = stream.peer_cred().context("the caller is not known")?;
        let own = rustix::process::geteuid().as_raw();
        ensure!(peer.uid() == 0 || peer.uid() == own, "user {} may not take this server's place", peer.uid());
        expect(&mut stream, REQUEST).await?;
        self.give(&stream).await?;
        expect(&mut stream, NOW).await
    }

    async fn give(&self, stream: &UnixStream) -> anyhow::Result<()> {
        let mut answer = serde_json::to_vec(&self.leaving).context("failed to write the answer")?;
        answer.push(b'\n');
        let sending = stream.async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LISTENERS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let descriptors: Vec<_> = self.listeners.iter().map(AsFd::as_fd).collect();
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
            let bytes = [IoSlice::new(&answer)];
            Ok(rustix::net::sendmsg(stream, &bytes, &mut control, SendFlags::NOSIGNAL)?)
        });
        let sent = sending.await.context("failed to give the listening socket away")?;
        ensure!(sent == answer.len(), "the answer was cut short");
        Ok(())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Whoever comes later finds nothing there, and the lock says the rest.
        let _ = fs::remove_file(&self.path);
    }
}

async fn expect(stream: &mut UnixStream, words: &[u8]) -> anyhow::Result<()> {
    let mut said = vec![0; words.len()];
    stream.read_exact(&mut said).await.context("the caller did not finish")?;
    ensure!(said == words, "the caller does not speak this server's language");
    Ok(())
}

/// What the process that serves has answered. Dropped, it goes on.
#[derive(Debug)]
pub(super) struct Asked {
    stream: std::os::unix::net::UnixStream,
    pub(super) leaving: Leaving,
    /// What it listens on.
    pub(super) listener: OwnedFd,
    /// Where it shows its numbers, if it does; earlier versions keep that to themselves.
    pub(super) watching: Option<OwnedFd>,
}

impl Asked {
    /// Tells it to go.
    pub(super) fn now(&mut self) -> anyhow::Result<()> {
        std::io::Write::write_all(&mut self.stream, NOW).context("the server that runs does not listen any more")
    }
}

/// Asks the process that serves from `run` for its place; blocking. None when none of them listens there. It is still to be told
/// when, within the time that it waits for words.
pub(super) fn ask(run: &Path) -> anyhow::Result<Option<Asked>> {
    let connected = named(run).and_then(|(_directory, address)| std::os::unix::net::UnixStream::connect(address));
    let mut stream = match connected {
        Ok(stream) => stream,
        Err(error) if [std::io::ErrorKind::NotFound, std::io::ErrorKind::ConnectionRefused].contains(&error.kind()) => {
            return Ok(None);
        }
        Err(error) => return Err(error).context("failed to reach the control socket of the server that runs"),
    };
    let mut talk = || {
        stream.set_read_timeout(Some(2 * PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        std::io::Write::write_all(&mut stream, REQUEST)?;
        let (mut space, mut bytes) =
            ([MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LISTENERS))], vec![0; ANSWER]);
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received =
            rustix::net::recvmsg(&stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        bytes.truncate(received.bytes);
        let listeners = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors.collect::<Vec<_>>()),
            _ => None,
        });
        std::io::Result::Ok((bytes, listeners.unwrap_or_default()))
    };
    let (bytes, listeners) = talk().context("the server that runs did not answer on its control socket")?;
    let mut listeners = listeners.into_iter();
    let Some(listener) = listeners.next() else { bail!("the server that runs did not give its listening socket away") };
    let leaving =
        serde_json::from_slice(&bytes).context("the server that runs answered in words that are not known")?;
    Ok(Some(Asked { stream, leaving, listener, watching: listeners.next() }))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[tokio::test]
    async fn a_successor_gets_the_socket_and_nonsense_does_not() {
        let root = tempfile::tempdir().unwrap();
        // Longer than a socket's address.
        let run = root.path().join("x".repeat(120));
        fs::create_dir(&run).unwrap();
        assert!(ask(&run).unwrap().is_none());

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let watching = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let watched = watching.local_addr().unwrap();
        let control = Control::open(&run, &listener, Some(&watching), Duration::from_secs(10)).unwrap();
        assert_eq!(fs::metadata(run.join(NAME)).unwrap().permissions().mode() & 0o777, 0o600);
        drop(listener);
        let asking = tokio::task::spawn_blocking(move || {
            let (_directory, name) = named(&run).unwrap();
            let mut nonsense = std::os::unix::net::UnixStream::connect(&name).unwrap();
            nonsense.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            // A connection that is closed with unread words is reset, or just ends.
            assert_eq!(nonsense.read(&mut [0; 1]).unwrap_or(0), 0);
            // Somebody who asks and has gone when he is answered.
            std::os::unix::net::UnixStream::connect(&name).unwrap().write_all(REQUEST).unwrap();
            // Somebody who finds that he cannot serve.
            drop(ask(&run).unwrap().unwrap());
            let mut asked = ask(&run).unwrap().unwrap();
            asked.now().unwrap();
            asked
        });
        control.asked().await;
        drop(control);
        let Asked { leaving: told, listener, watching, .. } = asking.await.unwrap();
        assert_eq!(std::net::TcpListener::from(watching.unwrap()).local_addr().unwrap(), watched);
        assert_eq!(told, Leaving { process: std::process::id(), grace_ms: 10_000 });
        let listener = std::net::TcpListener::from(listener);
        assert_eq!(listener.local_addr().unwrap(), address);
        let client = std::net::TcpStream::connect(address).unwrap();
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
        assert!(!root.path().join("x".repeat(120)).join(NAME).exists());
    }
}
