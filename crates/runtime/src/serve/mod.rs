//! The poll loop of process 1.
//!
//! Ordering within a round: what is ready is handled, then file operations do one step each, then deadlines, then every connection
//! writes what its peer takes. Nothing here waits but the poll itself, and the kill of a whole tree that the server asked for.

mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{Pid, Signal};
use stead_link::{ExitReason, frame};

use crate::config::Config;
use crate::connection::Connection;
use crate::exec::Exec;
use crate::files::{Job, Progress};
use crate::forward::{Forward, MAX_FORWARDS, ProxyListener};
use crate::readiness::{Interests, Source};
use crate::signals::{Signals, Termination};
use crate::{hardening, processes};

/// Connections that are served at one time; more wait in the listener's queue. A server needs one.
const MAX_CONNECTIONS: usize = 8;
/// One portion of any copy.
const SCRATCH: usize = frame::LARGE_CHUNK;
/// How long nothing is accepted after a failure to.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long after the last work memory is kept for more of it.
const REST: Duration = Duration::from_secs(1);
/// What the spools of all commands may hold together, in bytes, and what each may at least.
const SPOOLS: usize = 2 << 20;
const SPOOL_LEAST: usize = 48 * 1024;
/// How long the goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Why the runtime cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The system refused something that the runtime cannot do without.
    #[error("cannot {action}")]
    System {
        /// What was attempted.
        action: &'static str,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// Standard input is not what the launcher owes.
    #[error("standard input is not a listening unix socket")]
    NotListening,
    /// Commands would inherit these descriptors.
    #[error("started with stray descriptors {0:?}")]
    Stray(Vec<i32>),
}

/// Memory that takes no room before it is written to.
fn scratch() -> Box<[u8]> {
    vec![0; SCRATCH].into_boxed_slice()
}

fn failed<E: Into<std::io::Error>>(action: &'static str) -> impl FnOnce(E) -> RuntimeError {
    move |source| RuntimeError::System { action, source: source.into() }
}

/// Serves until a server or a `SIGTERM` from outside ends it, or until there has been no server for too long; then nothing of the
/// environment runs any more.
pub fn serve(config: &Config) -> Result<(), RuntimeError> {
    hardening::harden().map_err(failed("harden process 1"))?;
    let mut runtime = Runtime::new(config)?;
    while !runtime.ending {
        runtime.round()?;
    }
    runtime.kill_all();
    for connection in runtime.connections.values_mut() {
        connection.drain(GOODBYE);
    }
    Ok(())
}

struct Runtime {
    listener: OwnedFd,
    token_digest: [u8; 32],
    child_signal: Signals,
    termination: Termination,
    connections: BTreeMap<u32, Connection>,
    execs: BTreeMap<u32, Exec>,
    jobs: BTreeMap<(u32, u32), Job>,
    proxies: Vec<ProxyListener>,
    forwards: BTreeMap<u32, Forward>,
    next_id: u32,
    /// Nothing is accepted before this: the last attempt failed, and the next would, too.
    accept_again: Option<Instant>,
    scratch: Box<[u8]>,
    /// When the memory that work has left behind is given back, unless there is more.
    rest_at: Option<Instant>,
    /// How long this goes on without a server.
    orphan_grace: Option<Duration>,
    /// When that is over, while there is none.
    orphan_deadline: Option<Instant>,
    ending: bool,
}

impl Runtime {
    fn new(config: &Config) -> Result<Self, RuntimeError> {
        let stray = hardening::stray_descriptors().unwrap_or_default();
        if !stray.is_empty() {
            return Err(RuntimeError::Stray(stray));
        }
        let listener = hardening::take_stdin().map_err(failed("take the listening socket"))?;
        if !rustix::net::sockopt::socket_acceptconn(&listener).unwrap_or(false) {
            return Err(RuntimeError::NotListening);
        }
        rustix::io::ioctl_fionbio(&listener, true).map_err(failed("unblock the listening socket"))?;
        let proxies: Result<_, _> = config.proxies.iter().map(ProxyListener::bind).collect();
        let orphan_grace = config.orphan_grace;
        Ok(Self {
            listener,
            token_digest: config.token_digest,
            child_signal: Signals::listen(Signal::CHILD.as_raw()).map_err(failed("listen for children"))?,
            termination: Termination::listen().map_err(failed("listen for the end"))?,
            connections: BTreeMap::new(),
            execs: BTreeMap::new(),
            jobs: BTreeMap::new(),
            proxies: proxies.map_err(failed("listen for the proxy"))?,
            forwards: BTreeMap::new(),
            next_id: 1,
            accept_again: None,
            scratch: scratch(),
            rest_at: None,
            orphan_grace,
            orphan_deadline: orphan_grace.and_then(|grace| Instant::now().checked_add(grace)),
            ending: false,
        })
    }

    /// A number that no connection, command or forward has. They are few and the numbers many.
    fn fresh_id(&mut self) -> u32 {
        loop {
            let id = self.next_id;
            self.next_id = self.next_id.wrapping_add(1);
            let used =
                self.connections.contains_key(&id) || self.execs.contains_key(&id) || self.forwards.contains_key(&id);
            if !used {
                return id;
            }
        }
    }

    fn round(&mut self) -> Result<(), RuntimeError> {
        self.share_spools();
        let ready = self.interests().wait(self.wake_up()).map_err(failed("wait"))?;
        let now = Instant::now();
        if !ready.is_empty() {
            self.rest_at = now.checked_add(REST);
        } else if self.rest_at.is_some_and(|instant| now >= instant) {
            self.rest();
        }
        for (source, events) in ready {
            self.handle(source, events);
        }
        self.step_jobs();
        self.look_at_deadlines();
        // What was written makes room for more; the poll would not tell.
        while self.deliver() {
            self.flush();
        }
        self.flush();
        Ok(())
    }

    /// Gives memory back that holds nothing.
    fn rest(&mut self) {
        self.rest_at = None;
        self.scratch = scratch();
        self.execs.values_mut().for_each(Exec::rest);
        self.connections.values_mut().for_each(Connection::rest);
    }

    /// Divides what all spools may hold together.
    fn share_spools(&mut self) {
        let named = self.execs.values().filter(|exec| exec.name().is_some()).count();
        let share = SPOOLS.checked_div(named).unwrap_or(SPOOLS).clamp(SPOOL_LEAST, frame::LARGE_WINDOW);
        self.execs.values_mut().for_each(|exec| exec.resize_spool(share));
    }

    /// Sends what named commands have written as far as their readers have room; answers whether that was anything.
    fn deliver(&mut self) -> bool {
        let named: Vec<u32> = self.execs.iter().filter(|(_, exec)| exec.name().is_some()).map(|(id, _)| *id).collect();
        let mut any = false;
        for id in named {
            any |= self.with_exec(id, |exec, owner, _| owner.is_some_and(|owner| exec.deliver(owner))) == Some(true);
            self.settle(id);
        }
        any
    }

    fn interests(&self) -> Interests<'_> {
        let mut interests = Interests::default();
        interests.add(Source::ChildSignal, self.child_signal.fd(), PollFlags::IN);
        interests.add(Source::Termination, self.termination.fd(), PollFlags::IN);
        if self.accept_again.is_none() && self.connections.len() < MAX_CONNECTIONS {
            interests.add(Source::Listener, self.listener.as_fd(), PollFlags::IN);
        }
        for (id, connection) in &self.connections {
            let events = connection.interest();
            if !events.is_empty() {
                interests.add(Source::Connection(*id), connection.fd(), events);
            }
        }
        for (id, exec) in &self.execs {
            let owner = exec.owner.and_then(|owner| self.connections.get(&owner.connection));
            exec.interests(*id, owner, &mut interests);
        }
        if self.accept_again.is_none() && self.forwards.len() < MAX_FORWARDS {
            for (index, proxy) in self.proxies.iter().enumerate() {
                interests.add(Source::ProxyListener(index), proxy.fd(), PollFlags::IN);
            }
        }
        for (id, forward) in &self.forwards {
            forward.interests(*id, &mut interests);
        }
        interests
    }

    /// When the round must begin though nothing is ready.
    fn wake_up(&self) -> Option<Instant> {
        let busy = self.jobs.iter().any(|((connection, stream), job)| {
            self.connections.get(connection).is_some_and(|connection| job.is_ready(connection, *stream))
        });
        if busy {
            return Some(Instant::now());
        }
        let execs = self.execs.values().filter_map(Exec::deadline);
        let hellos = self.connections.values().filter_map(Connection::hello_deadline);
        execs.chain(hellos).chain(self.accept_again).chain(self.orphan_deadline).chain(self.rest_at).min()
    }

    fn handle(&mut self, source: Source, events: PollFlags) {
        match source {
            Source::Listener => self.accept(),
            Source::ChildSignal => {
                self.child_signal.take();
                processes::reap(|_, _| {});
                self.execs.values_mut().for_each(Exec::keep_watched);
            }
            Source::Termination => self.ending |= self.termination.take(),
            Source::Connection(id) => {
                if events.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                    self.receive(id);
                }
            }
            Source::Supervisor(id) => {
                let lost = self.with_exec(id, |exec, owner, _| exec.supervisor_ready(owner));
                if lost == Some(true) {
                    self.kill_orphans();
                }
                self.settle(id);
            }
            Source::Stdout(id) => {
                self.with_exec(id, |exec, owner, scratch| exec.output_ready(0, owner, scratch));
                self.settle(id);
            }
            Source::Stderr(id) => {
                self.with_exec(id, |exec, owner, scratch| exec.output_ready(1, owner, scratch));
                self.settle(id);
            }
            Source::Stdin(id) => {
                self.with_exec(id, |exec, owner, _| exec.stdin_ready(owner));
            }
            Source::ProxyListener(index) => match self.proxies.get(index).map(ProxyListener::accept) {
                Some(Ok(Some(forward))) => {
                    let id = self.fresh_id();
                    self.forwards.insert(id, forward);
                }
                Some(Err(_)) => self.pause_accepting(),
                Some(Ok(None)) | None => {}
            },
            Source::ForwardInner(id) | Source::ForwardOuter(id) => {
                let scratch = &mut self.scratch;
                if self.forwards.get_mut(&id).is_some_and(|forward| !forward.pump(scratch)) {
                    self.forwards.remove(&id);
                }
            }
        }
    }

    fn accept(&mut self) {
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let Ok(socket) = rustix::net::accept_with(&self.listener, flags) else {
            self.pause_accepting();
            return;
        };
        if let Ok(connection) = Connection::new(UnixStream::from(socket)) {
            let id = self.fresh_id();
            self.connections.insert(id, connection);
        }
    }

    /// Without descriptors left, a peer that waits would keep the loop spinning.
    fn pause_accepting(&mut self) {
        self.accept_again = Instant::now().checked_add(ACCEPT_PAUSE);
    }

    /// Runs `act` on a command and the connection of its owner.
    fn with_exec<T>(
        &mut self,
        id: u32,
        act: impl FnOnce(&mut Exec, Option<&mut Connection>, &mut [u8]) -> T,
    ) -> Option<T> {
        let exec = self.execs.get_mut(&id)?;
        let owner = exec.owner.and_then(|owner| self.connections.get_mut(&owner.connection));
        Some(act(exec, owner, &mut self.scratch))
    }

    /// Reports a command's end when its time has come, and forgets it when nothing of it is left.
    fn settle(&mut self, id: u32) {
        self.with_exec(id, |exec, owner, _| exec.finish_when_drained(owner));
        if self.execs.get(&id).is_some_and(Exec::is_over) {
            self.execs.remove(&id);
        }
    }

    fn step_jobs(&mut self) {
        let (connections, scratch) = (&mut self.connections, &mut self.scratch);
        self.jobs.retain(|(connection, stream), job| {
            connections
                .get_mut(connection)
                .is_some_and(|connection| job.step(connection, *stream, scratch) != Progress::Done)
        });
    }

    fn look_at_deadlines(&mut self) {
        let now = Instant::now();
        self.accept_again = self.accept_again.filter(|instant| now < *instant);
        for connection in self.connections.values_mut() {
            if connection.hello_deadline().is_some_and(|deadline| now >= deadline) {
                connection.give_up_waiting();
            }
        }
        self.ending |= self.orphan_deadline.is_some_and(|deadline| now >= deadline);
        let due = |exec: &Exec| exec.deadline().is_some_and(|deadline| now >= deadline);
        let ids: Vec<u32> = self.execs.iter().filter(|(_, exec)| due(exec)).map(|(id, _)| *id).collect();
        for id in ids {
            self.with_exec(id, |exec, _, _| exec.kill_overdue());
            self.settle(id);
        }
    }

    fn flush(&mut self) {
        let gone: Vec<u32> = self
            .connections
            .iter_mut()
            .filter_map(|(id, connection)| (!connection.flush() || connection.is_done()).then_some(*id))
            .collect();
        for id in gone {
            self.drop_connection(id);
        }
    }

    /// Forgets a connection. Its named commands go on; the others and its file operations end.
    fn drop_connection(&mut self, id: u32) {
        let dropped = self.connections.remove(&id);
        if dropped.is_some_and(|connection| connection.is_authenticated()) {
            self.note_servers();
        }
        self.jobs.retain(|(connection, _), _| *connection != id);
        let orphaned = |exec: &Exec| exec.owner.is_some_and(|owner| owner.connection == id);
        let ids: Vec<u32> = self.execs.iter().filter(|(_, exec)| orphaned(exec)).map(|(id, _)| *id).collect();
        for id in ids {
            self.with_exec(id, |exec, _, _| exec.disown());
            self.settle(id);
        }
    }

    /// Whether there is a server has changed, or may have.
    fn note_servers(&mut self) {
        let alone = !self.connections.values().any(Connection::is_authenticated);
        self.orphan_deadline = self.orphan_grace.filter(|_| alone).and_then(|grace| Instant::now().checked_add(grace));
    }

    /// Kills everything but this process; answers how many would not die.
    fn kill_all(&mut self) -> u32 {
        for exec in self.execs.values_mut() {
            exec.expect_kill(ExitReason::Killed);
        }
        let myself = rustix::process::getpid();
        let reap = || processes::reap(|_, _| {});
        if myself == Pid::INIT {
            processes::kill_namespace(reap)
        } else {
            processes::kill_descendants(myself, &BTreeSet::new(), reap)
        }
    }

    /// Kills what a supervisor left behind that was killed: all children here that are no supervisors. Where there is no other
    /// command that is everyone, and takes no look at the process table, which code of the environment may have made
    /// impossible (`prlimit` asks only for the same user).
    fn kill_orphans(&mut self) {
        let supervisors: BTreeSet<i32> = self.execs.values().filter_map(Exec::supervisor_pid).collect();
        let (myself, reap) = (rustix::process::getpid(), || processes::reap(|_, _| {}));
        if supervisors.is_empty() && myself == Pid::INIT {
            processes::kill_namespace(reap);
        } else {
            processes::kill_descendants(myself, &supervisors, reap);
        }
    }
}
