//! How a server process comes into possession of its data directory and its listening socket: by itself, or from the process that
//! has them now.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpSocket};

use super::ballast::Ballast;
use super::control::{self, Leaving};
use super::data_directory::{self, Claim, DataDirectory};
use super::{belonging, native};
use crate::config::Settings;

/// Connections that wait to be accepted, at most. Those made during a take-over wait here; the kernel has a bound of its own.
const WAITING: u32 = 4096;
/// How long an earlier process may take beyond its requests' grace to let go of everything.
const LETTING_GO: Duration = Duration::from_secs(30);
/// How long the lock of a process that is gone is waited for.
const DEAD_HOLDER: Duration = Duration::from_secs(5);
/// How often the lock is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// What a process holds once it may serve.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) directory: DataDirectory,
    /// What keeps room back on its disk.
    pub(super) ballast: Arc<Ballast>,
    pub(super) listener: TcpListener,
    pub(super) address: SocketAddr,
    /// Where numbers and health are shown besides, if they are.
    pub(super) watching: Option<std::net::TcpListener>,
}

/// Where a process listens, before it serves there.
#[derive(Debug)]
struct Sockets {
    main: TcpListener,
    watching: Option<std::net::TcpListener>,
}

/// Takes the data directory and the address, or fails.
pub(super) async fn enter(settings: &Settings, take_over: bool) -> anyhow::Result<Entered> {
    let path = &settings.data_directory;
    let (directory, sockets, ballast) = match claim(path).await? {
        // Before the parts start anything: an address that is taken is found out first, and connections made meanwhile wait.
        Claim::Ours(directory) => {
            // Reading the database may take room as well.
            let ballast = keep_room(path).await?;
            belonging::check(path, &settings.database.url).await?;
            (directory, Sockets::open(settings, None, None)?, ballast)
        }
        Claim::Held(holder) if !take_over => bail!(
            "another server (process {holder}) uses the data directory {}; `stead serve --take-over` takes its place",
            path.display()
        ),
        Claim::Held(holder) => {
            let _only = only_successor(path)?;
            check(settings).await?;
            let (directory, sockets) = succeed(settings, &holder).await?;
            (directory, sockets, keep_room(path).await?)
        }
    };
    let address = sockets.main.local_addr().context("failed to read the address listened on")?;
    Ok(Entered { directory, ballast, listener: sockets.main, address, watching: sockets.watching })
}

/// Two that want the same place would wait for it together, and one of them in vain. Who succeeds holds what is returned meanwhile.
fn only_successor(path: &Path) -> anyhow::Result<File> {
    let file = path.join("successor");
    let opened = File::options().create(true).truncate(false).write(true).mode(0o600).open(&file);
    let opened = opened.with_context(|| format!("failed to open {}", file.display()))?;
    match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            bail!("another process is already taking the place of the server on the data directory {}", path.display())
        }
        Err(error) => Err(error).with_context(|| format!("failed to lock {}", file.display())),
        Ok(()) => Ok(opened),
    }
}

async fn keep_room(path: &Path) -> anyhow::Result<Arc<Ballast>> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || Ballast::open(&path)).await.context("the task that looks at the disk failed")
}

/// Claims the data directory. The lock of a process that was just killed is held for a moment longer by a child that it was about to
/// start, which lets go of it once it runs its own program.
async fn claim(path: &Path) -> anyhow::Result<Claim> {
    let began = Instant::now();
    loop {
        match DataDirectory::claim(path)? {
            Claim::Held(holder) if is_gone(&holder) && began.elapsed() < DEAD_HOLDER => tokio::time::sleep(LOOK).await,
            claim => return Ok(claim),
        }
    }
}

/// Whether no process of that number runs. What is no number says nothing.
fn is_gone(holder: &str) -> bool {
    let Ok(process) = holder.parse::<u32>() else { return false };
    match std::fs::read_to_string(format!("/proc/{process}/stat")) {
        // The state follows the name, which may hold anything.
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Finds out what would keep this process from serving, while the other one still does.
async fn check(settings: &Settings) -> anyhow::Result<()> {
    let own = settings.clone();
    let checking = tokio::task::spawn_blocking(move || native::check(&own));
    checking.await.context("the task that looks at the machine failed")??;
    belonging::check(&settings.data_directory, &settings.database.url).await?;
    let path = settings.data_directory.clone();
    let trying = tokio::task::spawn_blocking(move || data_directory::try_to_write(&path));
    trying.await.context("the task that tries to write failed")?
}

/// Asks the process that serves to go, and waits until it has let go of the lock. It is never ended by force: what it still does
/// nobody but its operator can judge.
async fn succeed(settings: &Settings, holder: &str) -> anyhow::Result<(DataDirectory, Sockets)> {
    let path = &settings.data_directory;
    let run = path.join("run");
    let asking = tokio::task::spawn_blocking(move || control::ask(&run));
    let (leaving, sockets) = match asking.await.context("the task that asks the other server failed")?? {
        Some(mut asked) => {
            let given = (Some(asked.listener.try_clone()?), asked.watching.take());
            // The last that may go wrong: from here on there is no way back.
            let sockets = Sockets::open(settings, given.0, given.1)?;
            asked.now()?;
            (asked.leaving, Some(sockets))
        }
        // It is starting or ending. The latter is all that is wanted of it.
        None => (Leaving { process: 0, grace_ms: settings.server.shutdown_grace.as_millis() as u64 }, None),
    };
    let process = if leaving.process == 0 { holder.to_owned() } else { leaving.process.to_string() };
    tracing::info!(server.process = process, "taking the place of another server");
    let patience = Duration::from_millis(leaving.grace_ms) + LETTING_GO;
    let began = Instant::now();
    loop {
        if let Claim::Ours(directory) = DataDirectory::claim(path)? {
            let waited_ms = began.elapsed().as_millis() as u64;
            tracing::info!(waited_ms, "the other server has gone");
            let sockets = match sockets {
                Some(sockets) => sockets,
                None => Sockets::open(settings, None, None)?,
            };
            return Ok((directory, sockets));
        }
        let asked = if sockets.is_some() { "was asked to go and" } else { "does not answer on its control socket and" };
        if began.elapsed() > patience {
            bail!(
                "the other server (process {process}) {asked} still uses the data directory {} after {patience:?}; \
                 look at its log, and end it (SIGINT, else SIGKILL: its tasks are then interrupted) before you start this one again",
                path.display()
            );
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl Sockets {
    /// What another process gave where that is where this one shall listen, else sockets of its own.
    fn open(settings: &Settings, given: Option<OwnedFd>, watching: Option<OwnedFd>) -> anyhow::Result<Self> {
        let main = open(settings.server.listen, given, "server.listen")?;
        let watching = settings.server.metrics_listen.map(|address| open(address, watching, "server.metrics_listen"));
        let main = TcpListener::from_std(main).context("failed to prepare the listening socket")?;
        Ok(Self { main, watching: watching.transpose()? })
    }
}

fn open(address: SocketAddr, given: Option<OwnedFd>, option: &str) -> anyhow::Result<std::net::TcpListener> {
    let Some(given) = given.map(std::net::TcpListener::from) else { return bind(address, option) };
    let there = given.local_addr().context("failed to read the address listened on")?;
    if address == there || (address.port() == 0 && address.ip() == there.ip()) {
        given.set_nonblocking(true).context("failed to prepare the listening socket")?;
        return Ok(given);
    }
    tracing::warn!(server.address = %address, "the other server listened on {there}, where nobody answers from now on");
    bind(address, option)
}

fn bind(address: SocketAddr, option: &str) -> anyhow::Result<std::net::TcpListener> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(WAITING)?.into_std()
    };
    listen().with_context(|| format!("failed to listen on {address}, which `{option}` names"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_lock_of_a_process_that_is_gone_is_waited_for() {
        let root = tempfile::tempdir().unwrap();
        let Claim::Ours(held) = DataDirectory::claim(root.path()).unwrap() else { panic!("nobody else has it") };
        let Claim::Held(holder) = claim(root.path()).await.unwrap() else { panic!("its holder lives") };
        assert_eq!(holder, std::process::id().to_string());

        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        std::fs::write(root.path().join("lock"), format!("{}\n", gone.id())).unwrap();
        let letting_go = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            drop(held);
        });
        assert!(matches!(claim(root.path()).await.unwrap(), Claim::Ours(_)));
        letting_go.await.unwrap();
    }
}
