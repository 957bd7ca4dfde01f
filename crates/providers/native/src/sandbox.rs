//! One running sandbox: launched, dialled, ended.
//!
//! ```text
//! launch: run directory → egress socket → control group → process 1 → launch.json → hello answered → handed out
//! end:    process 1 dies (killed by us or not) → watcher: group emptied and removed, egress closed, run directory
//!         removed → Ended
//! ```
//!
//! Only the watcher clears up, so a sandbox that was stopped and one that died end the same way. One that another process launched
//! is taken over (module `adoption`) and is then like any other.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::RngCore;
use sha2::{Digest, Sha256};
use stead_domain::OperationId;
use stead_domain::limit::Reached;
use stead_domain::ports::{ProviderError, RuntimeError};
use stead_egress::Policy;
use stead_link::{Client, Token};
use stead_sandbox::cgroup::CgroupStats;
use stead_sandbox::{Handover, Launched};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::egress::Opened;
use crate::fault::{cgroup_failed, chain, failed, launch_failed};
use crate::host::{Host, blocking};
use crate::limits::Ledger;
use crate::plan::{self, Shape};
use crate::record::{self, LaunchRecord};
use crate::run_directory::RUNTIME_SOCKET;
use crate::watcher::Watcher;

/// How long a runtime may take to answer its first hello.
const HELLO_DEADLINE: Duration = Duration::from_secs(10);
/// How long a killed sandbox may take to be gone.
const END_DEADLINE: Duration = Duration::from_secs(20);
/// How long after a sandbox the launcher of the next one is started.
const LAUNCHER_REST: Duration = Duration::from_millis(50);

/// Whether a sandbox runs.
#[derive(Debug, Clone)]
pub(crate) enum State {
    /// Process 1 is there.
    Running,
    /// Process 1 and everything with it is gone, and cleared up unless `fault` says otherwise.
    Ended {
        /// What the control group counted.
        stats: CgroupStats,
        /// What could not be cleared up.
        fault: Option<ProviderError>,
    },
}

/// A sandbox that this process launched or took over.
#[derive(Debug)]
pub(crate) struct Sandbox {
    pub(crate) host: Arc<Host>,
    pub(crate) name: String,
    record: Mutex<LaunchRecord>,
    launched: Arc<Launched>,
    token: Token,
    /// What the egress proxy's keeper knows its socket by.
    socket: Option<u64>,
    link: tokio::sync::Mutex<Link>,
    pub(crate) state: watch::Receiver<State>,
    /// The task that waits for its end.
    watching: AbortHandle,
    /// Told when something is about to run in it.
    stir: Notify,
    /// What it ran into.
    pub(crate) ledger: Ledger,
}

#[derive(Debug, Default)]
struct Link {
    client: Option<Client>,
    /// Whether there was one before.
    used: bool,
}

/// What the blocking half of a launch leaves.
struct Started {
    launched: Launched,
    record: LaunchRecord,
    errors: OwnedFd,
}

impl Sandbox {
    /// Makes a sandbox and waits until its runtime answers. On an error nothing is left but the files.
    pub(crate) async fn launch(
        host: &Arc<Host>,
        shape: Shape,
        egress: Option<Policy>,
        operation: Option<OperationId>,
        fingerprint: String,
    ) -> Result<Arc<Self>, ProviderError> {
        // Those of builds are made by no operation.
        let (began, kind) = (Instant::now(), if operation.is_some() { "session" } else { "build" });
        let launched = Self::launch_one(host, shape, egress, operation, fingerprint).await;
        host.launches.note(kind, launched.is_ok(), began.elapsed());
        launched
    }

    async fn launch_one(
        host: &Arc<Host>,
        shape: Shape,
        egress: Option<Policy>,
        operation: Option<OperationId>,
        fingerprint: String,
    ) -> Result<Arc<Self>, ProviderError> {
        let name = shape.name.clone();
        let sandbox = match Self::start(host, shape, egress, operation, fingerprint).await {
            Ok(sandbox) => sandbox,
            Err(error) => {
                let host = Arc::clone(host);
                // The reason why there is no sandbox is worth more than that of a failed clearing, which is logged.
                let _ = blocking(move || host.clear(&name)).await;
                return Err(error);
            }
        };
        match sandbox.hello().await {
            Ok(()) => {
                tokio::spawn(start_launcher_ahead(Arc::clone(host)));
                Ok(sandbox)
            }
            Err(error) => {
                sandbox.end().await?;
                Err(error)
            }
        }
    }

    async fn start(
        host: &Arc<Host>,
        shape: Shape,
        egress: Option<Policy>,
        operation: Option<OperationId>,
        fingerprint: String,
    ) -> Result<Arc<Self>, ProviderError> {
        let name = shape.name.clone();
        let (owner, directory) = (Arc::clone(host), name.clone());
        blocking(move || owner.run.make(&directory).map_err(failed("make a run directory", &owner.run.of(&directory))))
            .await?;
        let opened = match egress.clone() {
            Some(policy) => Some(open_egress(host, &name, policy).await?),
            None => None,
        };
        let (owner, order) = (Arc::clone(host), Order { shape, egress, operation, fingerprint });
        let Started { launched, record, errors } = blocking(move || start_process(&owner, order)).await?;
        Ok(Self::assemble(host, name, record, launched, opened, Some(errors)))
    }

    /// Has what runs watched, from here to its end.
    pub(crate) fn assemble(
        host: &Arc<Host>,
        name: String,
        record: LaunchRecord,
        launched: Launched,
        egress: Option<Opened>,
        errors: Option<OwnedFd>,
    ) -> Arc<Self> {
        let launched = Arc::new(launched);
        let socket = egress.as_ref().map(Opened::number);
        let (watcher, state) = Watcher::new(Arc::clone(host), name.clone(), Arc::clone(&launched), egress, errors);
        let about = match record.environment {
            Some(environment) => tracing::info_span!(parent: None, "sandbox", environment.id = %environment),
            // One of a build goes with the step that had it launched.
            None => tracing::info_span!("sandbox"),
        };
        let watching = tokio::spawn(watcher.run().instrument(about)).abort_handle();
        Arc::new(Self {
            host: Arc::clone(host),
            name,
            token: Token::new(record.token.clone()),
            ledger: Ledger::new(record.limits.unwrap_or(host.config.limits)),
            record: Mutex::new(record),
            launched,
            socket,
            link: tokio::sync::Mutex::default(),
            state,
            watching,
            stir: Notify::new(),
        })
    }

    /// Watches it no longer: it runs on, for the next service.
    pub(crate) fn let_go(&self) {
        self.watching.abort();
    }

    /// The hosts that the egress proxy refused it.
    pub(crate) async fn refused_hosts(&self) -> BTreeSet<String> {
        match self.socket {
            Some(socket) => self.host.egress.refused_hosts(socket).await,
            None => BTreeSet::new(),
        }
    }

    /// Uses a connection that was made already.
    pub(crate) async fn use_client(&self, client: Client) {
        *self.link.lock().await = Link { client: Some(client), used: true };
    }

    /// Returns when the runtime has answered.
    async fn hello(&self) -> Result<(), ProviderError> {
        let deadline = Instant::now() + HELLO_DEADLINE;
        loop {
            let error = match tokio::time::timeout_at(deadline, self.client()).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) if !self.has_ended() && Instant::now() < deadline => {
                    tracing::trace!(name = self.name, %error, "a runtime does not answer yet");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer in time".to_owned(),
            };
            tracing::error!(name = self.name, error, "a runtime did not answer");
            return Err(ProviderError::passing("runtime_silent", "the environment's runtime did not answer"));
        }
    }

    /// The shared connection; dialled anew when it was lost.
    pub(crate) async fn client(&self) -> Result<Client, RuntimeError> {
        let mut link = self.link.lock().await;
        if let Some(client) = link.client.as_ref().filter(|client| !client.is_closed()) {
            return Ok(client.clone());
        }
        if self.has_ended() {
            return Err(RuntimeError::Lost("the environment does not run".to_owned()));
        }
        let lost = |error: stead_link::LinkError| RuntimeError::Lost(chain(&error));
        let socket = self.host.run.socket(&self.name, RUNTIME_SOCKET);
        let client = Client::connect(socket, &self.token).await.map_err(lost)?;
        if link.used && client.generation() < 2 {
            // Such a runtime keeps nothing: nobody hears of the commands of the lost connection any more.
            client.kill_all().await.map_err(lost)?;
        }
        *link = Link { client: Some(client.clone()), used: true };
        Ok(client)
    }

    /// Kills everything in the sandbox and returns when it is gone and cleared up.
    pub(crate) async fn end(&self) -> Result<(), ProviderError> {
        let killed = self.launched.kill();
        let mut state = self.state.clone();
        let ended = tokio::time::timeout(END_DEADLINE, state.wait_for(|state| matches!(state, State::Ended { .. })));
        match ended.await {
            Ok(Ok(state)) => match &*state {
                State::Ended { fault: Some(fault), .. } => Err(fault.clone()),
                _ => Ok(()),
            },
            Ok(Err(_)) => Err(ProviderError::passing("native_interrupted", "the environment is no longer watched")),
            Err(_) => {
                tracing::error!(name = self.name, ?killed, "a killed sandbox does not end");
                Err(ProviderError::passing("native_survivors", "the environment's processes do not end"))
            }
        }
    }

    /// Returns when the sandbox has ended, by whatever cause.
    pub(crate) async fn ended(&self) {
        // An error means that the watcher is gone, and with it whoever could tell.
        let _ = self.state.clone().wait_for(|state| matches!(state, State::Ended { .. })).await;
    }

    /// Whether it is known to be over.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(*self.state.borrow(), State::Ended { .. })
    }

    /// What was launched.
    pub(crate) fn record(&self) -> LaunchRecord {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a later operation that found the sandbox as it wants it.
    pub(crate) fn confirm(&self, operation: OperationId) -> Result<LaunchRecord, ProviderError> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.operation = Some(operation);
        let directory = self.host.run.of(&self.name);
        record::write_json(&directory, LaunchRecord::FILE, &*record)
            .map_err(failed("write down a launch", &directory))?;
        Ok(record.clone())
    }

    /// Notes what is there before something runs. Off the asynchronous threads.
    pub(crate) async fn limits_noted(self: &Arc<Self>) {
        self.stir.notify_one();
        let sandbox = Arc::clone(self);
        let note = move || {
            sandbox.ledger.begin(&sandbox.stats(), sandbox.launched.pid);
            Ok(())
        };
        // What could not be noted is told too much of, and nothing worse.
        let _ = blocking(note).await;
    }

    /// Returns when something is about to run in it, since this was last asked.
    pub(crate) async fn stirred(&self) {
        self.stir.notified().await;
    }

    /// The limits that were reached since this was last asked. Blocking; with `thorough` for as long as a walk of the disk takes.
    pub(crate) fn limits_reached(&self, thorough: bool) -> Vec<Reached> {
        self.ledger.reached(&self.stats(), self.launched.pid, thorough)
    }

    /// The same, off the asynchronous threads. One that is about to end is waited for: it may have ended for this.
    pub(crate) async fn limits_told(self: &Arc<Self>, thorough: bool) -> Vec<Reached> {
        if thorough && self.client().await.is_err() {
            // What cannot be told in this time is not told.
            let _ = tokio::time::timeout(Duration::from_secs(2), self.ended()).await;
        }
        let sandbox = Arc::clone(self);
        blocking(move || Ok(sandbox.limits_reached(thorough))).await.unwrap_or_default()
    }

    /// Host pids of everything that runs in it: what its control group says, or where there is none its process tree. Blocking.
    pub(crate) fn processes(&self) -> Vec<i32> {
        // What cannot be read has ended or is about to.
        match self.host.cgroups.pids(&self.name).unwrap_or_default() {
            none if none.is_empty() => stead_sandbox::identity::descendants(self.launched.pid).unwrap_or_default(),
            pids => pids,
        }
    }

    /// What the control group counted so far. Blocking.
    pub(crate) fn stats(&self) -> CgroupStats {
        match &*self.state.borrow() {
            State::Ended { stats, .. } => *stats,
            State::Running => self.host.cgroups.stats(&self.name).unwrap_or_default(),
        }
    }
}

/// Binds the socket that leads out of a sandbox and has it served.
pub(crate) async fn open_egress(host: &Arc<Host>, name: &str, policy: Policy) -> Result<Opened, ProviderError> {
    let (owner, name) = (Arc::clone(host), name.to_owned());
    let listener = blocking(move || {
        owner.run.listen_for_egress(&name).map_err(failed("listen for a sandbox's requests", &owner.run.of(&name)))
    });
    host.egress.open(listener.await?, policy).await
}

/// For the next sandbox, when the one that was just made has had time for its first command.
async fn start_launcher_ahead(host: Arc<Host>) {
    tokio::time::sleep(LAUNCHER_REST).await;
    // A fault is logged, and costs time only.
    let _ = blocking(move || {
        host.start_launcher_ahead();
        Ok(())
    })
    .await;
}

/// What a process is started for.
struct Order {
    shape: Shape,
    egress: Option<Policy>,
    operation: Option<OperationId>,
    fingerprint: String,
}

/// Everything that blocks: the control group, the socket, the launcher, the record.
fn start_process(host: &Host, order: Order) -> Result<Started, ProviderError> {
    let Order { shape, egress, operation, fingerprint } = order;
    let token = fresh_token();
    let cgroup = host.cgroups.create(&shape.name, &plan::limits(host, &shape.limits)).map_err(cgroup_failed)?;
    let digest = hex(&Sha256::digest(token.as_bytes()));
    let plan = plan::plan(host, &shape, cgroup, &digest, egress.is_some())?;
    let directory = host.run.of(&shape.name);
    let socket = directory.join(RUNTIME_SOCKET);
    let listener = host.run.listen(&shape.name, RUNTIME_SOCKET).map_err(failed("listen for a runtime", &socket))?;
    let (errors, error_writer) = std::io::pipe().map_err(failed("make a pipe", &directory))?;
    let launched = {
        let handover = Handover {
            program: Some(host.program.as_fd()),
            descriptors: vec![(listener.as_fd(), 0), (error_writer.as_fd(), 2)],
        };
        host.launcher.launch(&plan, &handover).map_err(launch_failed)?
    };
    // Our copies close here: a runtime that is gone must be a refused dial, and its last words must end.
    drop((listener, error_writer));
    let record = record::boot_id().and_then(|boot| {
        let record = LaunchRecord {
            operation,
            fingerprint,
            boot,
            pid: launched.pid,
            start_time_ticks: launched.start_time_ticks,
            cgroup: shape.name.clone(),
            socket,
            token,
            environment: shape.environment,
            limits: Some(shape.limits),
            egress,
        };
        record::write_json(&directory, LaunchRecord::FILE, &record)?;
        Ok(record)
    });
    match record {
        Ok(record) => Ok(Started { launched, record, errors: errors.into() }),
        Err(error) => {
            // What is not written down must not run.
            let _ = launched.kill();
            let _ = launched.wait(END_DEADLINE);
            Err(failed("write down a launch", &directory)(error))
        }
    }
}

fn fresh_token() -> String {
    let mut bytes = [0_u8; 32];
    rand::rng().fill_bytes(&mut bytes);
    hex(&bytes)
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// A runtime's last words: at most 4 KiB, and only what is there already.
pub(crate) fn last_words(errors: &mut File) -> String {
    let mut bytes = Vec::new();
    if rustix::io::ioctl_fionbio(&*errors, true).is_ok() {
        // An end that has not come yet shows as an error; what came before it counts.
        let _ = errors.take(4096).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
