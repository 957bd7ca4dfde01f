//! How a server process comes into possession of its data directory and its listening socket: by itself, or from the process that
//! has them now.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::net::{TcpListener, TcpSocket};

use super::control::{self, Leaving};
use super::data_directory::{Claim, DataDirectory};
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
    pub(super) listener: TcpListener,
    pub(super) address: SocketAddr,
}

/// Takes the data directory and the address, or fails.
pub(super) async fn enter(settings: &Settings, take_over: bool) -> anyhow::Result<Entered> {
    let path = &settings.data_directory;
    let (directory, given) = match claim(path).await? {
        // Before the parts start anything: an address that is taken is found out first, and connections made meanwhile wait.
        Claim::Ours(directory) => (directory, None),
        Claim::Held(holder) if !take_over => bail!(
            "another server (process {holder}) uses the data directory {}; `stead serve --take-over` takes its place",
            path.display()
        ),
        Claim::Held(holder) => {
            check(settings).await?;
            succeed(settings, &holder).await?
        }
    };
    let listener = match given {
        Some(listener) => given_listener(settings, listener)?,
        None => bind(settings.server.listen)?,
    };
    let address = listener.local_addr().context("failed to read the address listened on")?;
    Ok(Entered { directory, listener, address })
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
    let runtime = &settings.runtime_path;
    ensure!(runtime.is_file(), "the runtime program {} is not there", runtime.display());
    let url = &settings.database.url;
    stead_store::check(url).await.with_context(|| format!("failed to open the database {url:?}"))
}

/// Asks the process that serves to go, and waits until it has let go of the lock. It is never ended by force: what it still does
/// nobody but its operator can judge.
async fn succeed(settings: &Settings, holder: &str) -> anyhow::Result<(DataDirectory, Option<OwnedFd>)> {
    let path = &settings.data_directory;
    let run = path.join("run");
    let asking = tokio::task::spawn_blocking(move || control::ask(&run));
    let (leaving, given) = match asking.await.context("the task that asks the other server failed")?? {
        Some((leaving, listener)) => (leaving, Some(listener)),
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
            return Ok((directory, given));
        }
        let asked = if given.is_some() { "was asked to go and" } else { "does not answer on its control socket and" };
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

/// The socket that another process listened on, if it is where this one shall listen; else one of its own.
fn given_listener(settings: &Settings, given: OwnedFd) -> anyhow::Result<TcpListener> {
    let given = std::net::TcpListener::from(given);
    let address = given.local_addr().context("failed to read the address listened on")?;
    let wanted = settings.server.listen;
    if wanted == address || (wanted.port() == 0 && wanted.ip() == address.ip()) {
        given.set_nonblocking(true).context("failed to prepare the listening socket")?;
        return TcpListener::from_std(given).context("failed to prepare the listening socket");
    }
    tracing::warn!(server.address = %wanted, "the other server listened on {address}, where nobody answers from now on");
    bind(wanted)
}

fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(WAITING)
    };
    listen().with_context(|| format!("failed to listen on {address}"))
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
