//! Keeps a proxy process running, and hands it the sandboxes' sockets.
//!
//! ```text
//! none ─first socket→ running ─process ends→ started again, every socket handed over ─shut down→ none for good
//!                        └─let go→ serves on by itself, in a control group of its own, until its time is over
//! ```
//!
//! The service binds each socket and keeps a copy, so that clients that come while there is no process wait for the next one. A
//! process ends by itself when the service does: nobody holds the other end of its control socket any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use stead_domain::ports::ProviderError;
use stead_egress::Policy;
use stead_egress::process::{Remote, RemoteError, RemoteHandle};
use stead_sandbox::cgroup::{Cgroup, CgroupManager};
use stead_sandbox::plan::Limits;
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::process::{EGRESS_NAME, OWN_USER};
use crate::fault::{cgroup_failed, chain, failed};
use crate::host::blocking;
use crate::sandbox::last_words;

/// Its control group. No sandbox has such a name.
const GROUP: &str = "egress";
/// What the control group of a process begins with that was let go; its number follows.
const LET_GO_GROUP: &str = "egress-";
/// How long a process that was let go waits for the next connection, at most.
const LONGEST_QUIET: Duration = Duration::from_secs(30);
/// How long a process that was let go keeps connections open.
const LINGER: Duration = Duration::from_mins(10);
/// How long after that it is ended by the next service.
const LINGER_MARGIN: Duration = Duration::from_secs(30);
const LINGER_LOOK: Duration = Duration::from_secs(1);
const MEMORY: u64 = 512 << 20;
/// Processes and threads: those that move bytes, and those that wait for names.
const PROCESSES: u64 = 600;
/// A process that lives less than this is started again later and later.
const SETTLED: Duration = Duration::from_secs(10);
const SHORTEST_REST: Duration = Duration::from_millis(50);
const LONGEST_REST: Duration = Duration::from_secs(5);
/// How long a socket waits for a process that serves it.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a process may take to end when it is told to.
const END: Duration = Duration::from_secs(5);

/// The one keeper of a service.
#[derive(Debug)]
pub(crate) struct Keeper {
    launcher: PathBuf,
    /// Who the process runs as; `None` is the service.
    user: Option<u32>,
    cgroups: CgroupManager,
    sockets: Mutex<Sockets>,
    /// Held by whoever starts a process or hands a socket over.
    process: tokio::sync::Mutex<Process>,
    /// Tells the task that watches the process to end it.
    stuck: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Sockets {
    next: u64,
    open: BTreeMap<u64, Socket>,
}

#[derive(Debug)]
struct Socket {
    listener: Arc<OwnedFd>,
    policy: Policy,
    /// What the process that runs knows it by.
    handle: Option<Arc<RemoteHandle>>,
}

/// The process, as far as there is one.
#[derive(Debug, Default)]
struct Process {
    remote: Option<Remote>,
    pid: Option<u32>,
    /// Watches the process and starts the next one.
    watching: Option<tokio::task::JoinHandle<()>>,
    over: bool,
}

/// A socket that is served. Dropping it closes it in the background.
#[derive(Debug)]
pub(crate) struct Opened {
    keeper: Arc<Keeper>,
    number: u64,
}

impl Keeper {
    pub(crate) fn new(launcher: PathBuf, user: Option<u32>, cgroups: CgroupManager) -> Arc<Self> {
        Arc::new(Self {
            launcher,
            user,
            cgroups,
            sockets: Mutex::default(),
            process: tokio::sync::Mutex::default(),
            stuck: Arc::default(),
        })
    }

    /// Starts the process, unless it runs.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<(), ProviderError> {
        let mut process = self.process.lock().await;
        self.ensure(&mut process).await
    }

    /// Has a listening socket served under `policy`. Waits while the process is started again.
    pub(crate) async fn open(self: &Arc<Self>, listener: OwnedFd, policy: Policy) -> Result<Opened, ProviderError> {
        let listener = Arc::new(listener);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut process = self.process.lock().await;
            self.ensure(&mut process).await?;
            // Between two processes there is none.
            let handed = match &process.remote {
                Some(remote) => hand_over(remote, &listener, &policy).await,
                None => Err(RemoteError::Gone),
            };
            match handed {
                Ok(handle) => {
                    let mut sockets = self.sockets();
                    let number = sockets.next;
                    sockets.next += 1;
                    sockets.open.insert(number, Socket { listener, policy, handle: Some(Arc::new(handle)) });
                    return Ok(Opened { keeper: Arc::clone(self), number });
                }
                Err(error) => {
                    self.judge(&error);
                    drop(process);
                    if Instant::now() > deadline || !may_pass(&error) {
                        tracing::error!(error = chain(&error), "egress");
                        return Err(ProviderError::passing("native_failed", "the egress proxy could not be opened"));
                    }
                    tokio::time::sleep(SHORTEST_REST).await;
                }
            }
        }
    }

    /// The hosts that were refused on a socket, as far as the process that runs has been asked for them.
    pub(crate) async fn refused_hosts(&self, number: u64) -> BTreeSet<String> {
        let handle = self.sockets().open.get(&number).and_then(|socket| socket.handle.clone());
        let Some(handle) = handle else { return BTreeSet::new() };
        match handle.stats().await {
            Ok(stats) => stats.refused_hosts,
            Err(error) => {
                tracing::debug!(%error, "the hosts that an egress socket was refused are not known");
                BTreeSet::new()
            }
        }
    }

    /// Whether there is a process, or none was needed yet. One that is being started counts.
    pub(crate) fn is_up(&self) -> bool {
        let Ok(process) = self.process.try_lock() else { return true };
        process.watching.is_none() || process.remote.as_ref().is_some_and(|remote| !remote.is_closed())
    }

    /// Hears what went through every socket that is open; each answer is counted where it arrives.
    pub(crate) async fn sample(&self) {
        let handles: Vec<_> = self.sockets().open.values().filter_map(|socket| socket.handle.clone()).collect();
        for handle in handles {
            if handle.stats().await.is_err() {
                return;
            }
        }
    }

    /// Ends the process for good.
    pub(crate) async fn shut_down(&self) {
        let watching = {
            let mut process = self.process.lock().await;
            process.over = true;
            process.remote = None;
            process.watching.take()
        };
        self.sockets().open.clear();
        let Some(mut watching) = watching else { return };
        if tokio::time::timeout(END, &mut watching).await.is_err() {
            self.stuck.notify_one();
            // A process that cannot be killed is the kernel's to end.
            let _ = tokio::time::timeout(END, watching).await;
        }
        let cgroups = self.cgroups.clone();
        let removed = blocking(move || cgroups.kill(GROUP).and_then(|()| cgroups.remove(GROUP)).map_err(cgroup_failed));
        // It was logged; the next start takes the group over.
        let _ = removed.await;
        self.end_let_go().await;
    }

    /// Ends the processes that earlier services of this data directory let go, and removes their groups.
    async fn end_let_go(&self) {
        let cgroups = self.cgroups.clone();
        let ended = blocking(move || {
            let names = cgroups.list().into_iter().filter(|name| name.starts_with(LET_GO_GROUP));
            for name in names {
                // It was logged, and is no reason to leave the others.
                let _ = cgroups.kill(&name).and_then(|()| cgroups.remove(&name)).map_err(cgroup_failed);
            }
            Ok(())
        });
        let _ = ended.await;
    }

    /// Lets the process go on by itself, for the connections that are open and those that come before the next service is there; no
    /// longer than `quiet` without any. This keeper starts no other one.
    pub(crate) async fn let_go(&self, quiet: Duration) {
        let mut process = self.process.lock().await;
        process.over = true;
        if let Some(watching) = process.watching.take() {
            watching.abort();
        }
        let Some(remote) = process.remote.take() else { return };
        match remote.let_go(quiet.min(LONGEST_QUIET), LINGER).await {
            Ok(()) => self.move_out(process.pid).await,
            // It ends with this service then, and what is open with it.
            Err(error) => tracing::warn!(error = chain(&error), "the egress proxy could not be let go"),
        }
        self.sockets().open.clear();
    }

    /// Moves a process that was let go out of the way of the next service's.
    async fn move_out(&self, pid: Option<u32>) {
        let Some(pid) = pid else { return };
        let cgroups = self.cgroups.clone();
        let moved = blocking(move || {
            let group = cgroups.create(&format!("{LET_GO_GROUP}{pid}"), &limits()).map_err(cgroup_failed)?;
            enter(&group, pid);
            Ok(())
        });
        // It was logged; the next service ends the process then.
        let _ = moved.await;
    }

    /// Removes the control groups of processes that earlier services let go, each when its process has ended, which is seen to.
    pub(crate) async fn clear_let_go(&self) {
        let end = Instant::now() + LINGER + LINGER_MARGIN;
        loop {
            let (cgroups, is_over) = (self.cgroups.clone(), Instant::now() > end);
            let left = blocking(move || {
                let names = cgroups.list().into_iter().filter(|name| name.starts_with(LET_GO_GROUP));
                let mut left = 0;
                for name in names {
                    if !is_over && !cgroups.pids(&name).map_err(cgroup_failed)?.is_empty() {
                        left += 1;
                        continue;
                    }
                    cgroups.kill(&name).and_then(|()| cgroups.remove(&name)).map_err(cgroup_failed)?;
                }
                Ok(left)
            });
            match left.await {
                Ok(0) => return,
                // What cannot be read or removed now may be later, until the time is over.
                Err(_) if is_over => return,
                _ => tokio::time::sleep(LINGER_LOOK).await,
            }
        }
    }

    /// Notes that the process has ended; answers whether there shall be another.
    async fn has_ended(&self, words: &str) -> bool {
        let mut process = self.process.lock().await;
        process.remote = None;
        if !process.over {
            let sockets = self.sockets().open.len();
            tracing::error!(words, sockets, "the egress proxy has ended and is started again");
        }
        !process.over
    }

    /// Starts the next process; none when there shall be none.
    async fn restart(&self) -> Result<Option<Started>, ProviderError> {
        let mut process = self.process.lock().await;
        if process.over { Ok(None) } else { self.launch(&mut process).await.map(Some) }
    }

    fn sockets(&self) -> MutexGuard<'_, Sockets> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process if none was started yet. Those after the first one are the watching task's to start.
    async fn ensure(self: &Arc<Self>, process: &mut Process) -> Result<(), ProviderError> {
        if process.over {
            return Err(closed());
        }
        if process.watching.is_some() {
            return Ok(());
        }
        let started = self.launch(process).await?;
        process.watching = Some(tokio::spawn(watch(Arc::downgrade(self), Arc::clone(&self.stuck), started)));
        Ok(())
    }

    /// Starts a process and hands it every socket that is open.
    async fn launch(&self, process: &mut Process) -> Result<Started, ProviderError> {
        let failed = |error: std::io::Error| failed("start the egress proxy", &self.launcher)(error);
        let cgroups = self.cgroups.clone();
        // What an earlier service left there ends by itself, but not necessarily at once.
        let group = blocking(move || {
            cgroups.kill(GROUP).and_then(|()| cgroups.create(GROUP, &limits())).map_err(cgroup_failed)
        })
        .await?;
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|error| failed(error.into()))?;
        let (errors, error_writer) = std::io::pipe().map_err(failed)?;
        let user = self.user.map_or(OWN_USER.to_owned(), |user| user.to_string());
        let child = Command::new(&self.launcher)
            .arg0(EGRESS_NAME)
            .arg(user)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(error_writer)
            // A signal from a terminal is for the service alone.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        if let Some(pid) = child.id() {
            blocking(move || {
                enter(&group, pid);
                Ok(())
            })
            .await?;
        }
        let remote = Remote::new(ours).map_err(failed)?;
        self.hand_all_over(&remote).await;
        process.remote = Some(remote);
        process.pid = child.id();
        Ok(Started { child, errors: File::from(OwnedFd::from(errors)), at: Instant::now() })
    }

    async fn hand_all_over(&self, remote: &Remote) {
        let numbers: Vec<u64> = self.sockets().open.keys().copied().collect();
        for number in numbers {
            let Some((listener, policy)) = self.sockets().open.get_mut(&number).map(|socket| {
                socket.handle = None;
                (Arc::clone(&socket.listener), socket.policy.clone())
            }) else {
                continue;
            };
            match hand_over(remote, &listener, &policy).await {
                // One that was closed meanwhile has no entry, and this handle closes it.
                Ok(handle) => {
                    if let Some(socket) = self.sockets().open.get_mut(&number) {
                        socket.handle = Some(Arc::new(handle));
                    }
                }
                Err(error) => {
                    self.judge(&error);
                    tracing::error!(error = chain(&error), "an egress socket could not be handed to a new proxy");
                }
            }
        }
    }

    /// A process that does not answer is ended.
    fn judge(&self, error: &RemoteError) {
        if matches!(error, RemoteError::Silent) {
            self.stuck.notify_one();
        }
    }
}

/// What a process may have.
fn limits() -> Limits {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    Limits {
        memory_bytes: MEMORY,
        processes: PROCESSES,
        cpu_millis: cores * 1000,
        open_files: 0,
        file_size: None,
        io_bytes_per_second: None,
    }
}

/// Moves a process into a group. Blocking.
fn enter(group: &Cgroup, pid: u32) {
    for directory in group.legacy.iter().chain(&group.unified) {
        if let Err(error) = std::fs::write(directory.join("cgroup.procs"), pid.to_string()) {
            tracing::warn!(path = %directory.display(), %error, "the egress proxy is not in its control group");
        }
    }
}

/// A process that was started.
struct Started {
    child: Child,
    errors: File,
    at: Instant,
}

/// Starts one process after the other, until nobody keeps them any more. Holds on to the keeper for moments only.
async fn watch(keeper: Weak<Keeper>, stuck: Arc<Notify>, mut started: Started) {
    let mut rest = Duration::ZERO;
    loop {
        let Started { child, errors, at } = &mut started;
        wait(child, &stuck).await;
        let words = last_words(errors);
        match keeper.upgrade() {
            Some(keeper) if keeper.has_ended(&words).await => {}
            _ => return,
        }
        rest = if at.elapsed() > SETTLED { Duration::ZERO } else { rest };
        started = loop {
            tokio::time::sleep(rest).await;
            rest = (rest * 2).clamp(SHORTEST_REST, LONGEST_REST);
            let Some(keeper) = keeper.upgrade() else { return };
            match keeper.restart().await {
                Ok(Some(started)) => break started,
                Ok(None) => return,
                Err(error) => tracing::error!(%error, "the egress proxy could not be started"),
            }
        };
    }
}

/// Returns when the process has ended; ends it when it is stuck.
async fn wait(child: &mut Child, stuck: &Notify) {
    loop {
        tokio::select! {
            _ = child.wait() => return,
            () = stuck.notified() => {}
        }
        if let Err(error) = child.start_kill() {
            tracing::warn!(%error, "the egress proxy could not be ended");
        }
    }
}

impl Opened {
    /// What the keeper knows it by.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Closes the socket and returns when its connections are cut.
    pub(crate) async fn close(self) {
        let socket = self.keeper.sockets().open.remove(&self.number);
        if let Some(Socket { listener, handle: Some(handle), .. }) = socket {
            // The copy first: new clients are refused rather than left to wait.
            drop(listener);
            // Whoever is asking for its numbers closes it afterwards.
            if let Some(handle) = Arc::into_inner(handle) {
                handle.close().await;
            }
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.keeper.sockets().open.remove(&self.number);
    }
}

async fn hand_over(remote: &Remote, listener: &OwnedFd, policy: &Policy) -> Result<RemoteHandle, RemoteError> {
    let copy = listener.try_clone().map_err(RemoteError::Policy)?;
    remote.open(copy, policy.clone()).await
}

/// Whether the next process may do what this one did not.
fn may_pass(error: &RemoteError) -> bool {
    matches!(error, RemoteError::Gone | RemoteError::Silent | RemoteError::Send(_))
}

fn closed() -> ProviderError {
    ProviderError::passing("native_failed", "the egress proxy is shut down")
}
