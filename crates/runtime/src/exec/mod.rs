//! A command, as process 1 sees it: its pipes, its supervisor's socket, and how far its output has been delivered.
//!
//! Ordering: `Started` is sent before any output. `Exited` is sent when the main process has ended *and* what it had written by then has been delivered. A child
//! that stays in the background may keep the pipes open; what it writes is waited for no longer than [`GRACE`], and
//! thrown away afterwards, so that it does not die of a closed pipe.
//!
//! The output of a command without a name goes from its pipes to its connection, and it is killed when that is lost. With a
//! name ([`kept`]) it goes through a [`spool`].

mod kept;
mod pipes;
mod spool;
mod start;

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{Pid, Signal};
use stead_link::{ErrorCode, ExecRequest, ExitReason, ExitReport, Kind, Program, Reply, StdinMode};

use crate::connection::Connection;
use crate::processes;
use crate::readiness::{Interests, Source};
use crate::supervisor::orders::{self, Ended, Order, Received, Report};
use kept::Kept;
use pipes::{InputPipe, OutputPipe};
pub(crate) use start::StartError;
use start::{Script, start};

/// How long output is waited for after the main process has ended.
const GRACE: Duration = Duration::from_millis(200);
/// How long after a limit or a kill a supervisor is looked at for the first time, and how often from then on.
const LOOK: Duration = Duration::from_millis(250);
/// How long after a limit or a kill a supervisor may take to report the end. Code of the environment may have stopped it or taken
/// its means away, and what it has not killed by then process 1 kills.
const OVERDUE: Duration = Duration::from_secs(3);

/// How often code of the environment may stop its command's supervisor before that is taken for an attempt to go unwatched.
const STOPS: u32 = 16;

/// Who waits for a command: a connection and a stream on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) connection: u32,
    pub(crate) stream: u32,
}

pub(crate) struct Exec {
    pub(crate) owner: Option<Owner>,
    request: ExecRequest,
    script: Option<Script>,
    supervisor: Option<(OwnedFd, i32)>,
    stdin: InputPipe,
    outputs: [OutputPipe; 2],
    /// Output until now, both streams together, in bytes.
    output_bytes: u64,
    /// What the supervisor has said that the command runs as.
    pid: Option<u32>,
    /// Nobody wants the output any more.
    discarding: bool,
    /// The reason to report when the supervisor ends without a word.
    killed: Option<ExitReason>,
    /// When the supervisor must have reported the end.
    overdue: Option<Overdue>,
    /// How often its supervisor was found stopped.
    stops: u32,
    ended: Option<(Ended, Instant)>,
    /// Nothing more comes from the command that anybody wants.
    finished: bool,
    /// What there is more of a named command, until it is forgotten.
    kept: Option<Kept>,
}

/// When a supervisor is to be looked at next, and when it has had its time.
#[derive(Debug, Clone, Copy)]
struct Overdue {
    look: Instant,
    last: Instant,
}

impl Overdue {
    /// From a limit or a kill on; none when that is beyond what the clock can name.
    fn from(instant: Instant) -> Option<Self> {
        Some(Self { look: instant.checked_add(LOOK)?, last: instant.checked_add(OVERDUE)? })
    }
}

impl Exec {
    /// A command that was asked for; it starts at once unless its script is still to come.
    pub(crate) fn new(owner: Owner, mut request: ExecRequest) -> Result<Self, StartError> {
        let script = match request.program {
            Program::Script { length } => Some(Script::new(length)?),
            Program::Argv(_) => None,
        };
        let kept = request.name.take().map(Kept::new);
        let mut exec = Self {
            owner: Some(owner),
            request,
            script,
            supervisor: None,
            stdin: InputPipe::default(),
            outputs: [OutputPipe::new(Kind::Data), OutputPipe::new(Kind::DataError)],
            output_bytes: 0,
            pid: None,
            discarding: false,
            killed: None,
            overdue: None,
            stops: 0,
            ended: None,
            finished: false,
            kept,
        };
        exec.start_when_complete()?;
        Ok(exec)
    }

    fn start_when_complete(&mut self) -> Result<(), StartError> {
        if self.supervisor.is_some() || self.script.as_ref().is_some_and(|script| !script.is_complete()) {
            return Ok(());
        }
        let started = start(&self.request, self.script.take())?;
        self.supervisor = Some((started.control, started.pid));
        self.overdue = self
            .request
            .time_limit_ms
            .and_then(|limit| Overdue::from(Instant::now().checked_add(Duration::from_millis(limit))?));
        self.request.env.clear();
        if let Some(stdin) = started.stdin {
            self.stdin.open(stdin);
        }
        let [stdout, stderr] = started.outputs;
        self.outputs[0].open(stdout);
        self.outputs[1].open(stderr);
        Ok(())
    }

    /// The supervisor's process id.
    pub(crate) fn supervisor_pid(&self) -> Option<i32> {
        self.supervisor.as_ref().map(|(_, pid)| *pid)
    }

    /// Whether nothing is left of it here.
    pub(crate) fn is_over(&self) -> bool {
        self.finished
            && self.kept.is_none()
            && self.supervisor.is_none()
            && self.outputs.iter().all(OutputPipe::is_closed)
    }

    pub(crate) fn interests<'fd>(&'fd self, id: u32, owner: Option<&Connection>, into: &mut Interests<'fd>) {
        if let Some((control, _)) = &self.supervisor {
            into.add(Source::Supervisor(id), control.as_fd(), PollFlags::IN);
        }
        if let Some(fd) = self.stdin.waiting() {
            into.add(Source::Stdin(id), fd, PollFlags::OUT);
        }
        let may_speak = self.pid.is_some() || self.ended.is_some();
        if self.discarding || (may_speak && self.room(owner).is_some()) {
            for (pipe, source) in self.outputs.iter().zip([Source::Stdout(id), Source::Stderr(id)]) {
                if let Some(fd) = pipe.fd() {
                    into.add(source, fd, PollFlags::IN);
                }
            }
        }
    }

    /// How much output may be read now.
    fn room(&self, owner: Option<&Connection>) -> Option<usize> {
        match &self.kept {
            Some(kept) => kept.spool.room(),
            None => owner?.allowance(self.owner?.stream),
        }
    }

    /// When this wants to be looked at though nothing is ready.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let Some((_, deadline)) = &self.ended else {
            return self.overdue.map(|overdue| overdue.look);
        };
        let drained = self.outputs.iter().all(|pipe| pipe.must_read() == 0);
        (!self.finished && drained).then_some(*deadline)
    }

    /// Kills a supervisor that does not do its work, at once when it stands still; its end is seen on its socket, and what it
    /// leaves behind is process 1's.
    pub(crate) fn kill_overdue(&mut self) {
        let now = Instant::now();
        let Some(overdue) = self.overdue.filter(|overdue| self.ended.is_none() && now >= overdue.look) else {
            return;
        };
        let pid = self.supervisor_pid().and_then(Pid::from_raw);
        if now < overdue.last && !pid.is_some_and(processes::is_stopped) {
            let look = now.checked_add(LOOK).map_or(overdue.last, |look| look.min(overdue.last));
            self.overdue = Some(Overdue { look, ..overdue });
            return;
        }
        self.overdue = None;
        self.killed.get_or_insert(ExitReason::TimeLimit);
        if let Some(pid) = pid {
            // It may just have ended by itself.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }

    /// Has a supervisor go on that code of the environment has stopped: a command is not under way for as long as it likes because
    /// nobody looks. One that is stopped again and again is killed, which ends the command.
    pub(crate) fn keep_watched(&mut self) {
        let Some(pid) = self.supervisor_pid().and_then(Pid::from_raw) else { return };
        if self.ended.is_some() || !processes::has_just_stopped(pid) {
            return;
        }
        self.stops += 1;
        let signal = if self.stops > STOPS { Signal::KILL } else { Signal::CONT };
        if signal == Signal::KILL {
            self.killed.get_or_insert(ExitReason::Killed);
        }
        // It may just have ended by itself.
        let _ = rustix::process::kill_process(pid, signal);
    }

    /// Data of the stream: script first, then standard input.
    pub(crate) fn data(&mut self, bytes: &[u8], owner: &mut Connection) -> Result<(), StartError> {
        let Some(Owner { stream, .. }) = self.owner else {
            return Ok(());
        };
        let cost = stead_link::frame::cost(bytes.len());
        let mut rest = bytes;
        if let Some(script) = &mut self.script {
            rest = script.take(bytes)?;
            if rest.is_empty() {
                owner.grant(stream, cost);
            }
            self.start_when_complete()?;
        }
        if rest.is_empty() {
            return Ok(());
        }
        match self.request.stdin {
            StdinMode::Open if !self.is_adopted() => self.stdin.push(rest, cost),
            // As if written to /dev/null.
            StdinMode::Open | StdinMode::None => owner.grant(stream, cost),
        }
        self.stdin_ready(Some(owner));
        Ok(())
    }

    /// The stream's data is complete.
    pub(crate) fn data_end(&mut self) {
        self.stdin.end();
    }

    pub(crate) fn stdin_ready(&mut self, owner: Option<&mut Connection>) {
        let used = self.stdin.write();
        if let (Some(owner), Some(Owner { stream, .. }), true) = (owner, self.owner, used > 0) {
            owner.grant(stream, used);
        }
    }

    /// Reads one portion of an output.
    pub(crate) fn output_ready(&mut self, index: usize, owner: Option<&mut Connection>, scratch: &mut [u8]) {
        if self.discarding {
            self.outputs[index].read(scratch);
            return;
        }
        let Some(room) = self.room(owner.as_deref()) else {
            return;
        };
        let limit = self.request.output_limit_bytes.unwrap_or(u64::MAX);
        let most = room.min(scratch.len());
        let read = self.outputs[index].read(&mut scratch[..most]);
        let rest = usize::try_from(limit - self.output_bytes).unwrap_or(usize::MAX);
        let (kind, bytes) = (self.outputs[index].kind(), &scratch[..read.min(rest)]);
        if let Some(kept) = &mut self.kept {
            kept.spool.push(kind, bytes);
        } else if let (Some(connection), Some(Owner { stream, .. }), false) = (owner, self.owner, bytes.is_empty()) {
            connection.send_data(kind, stream, bytes);
        }
        self.output_bytes += bytes.len() as u64;
        if read > bytes.len() {
            self.discarding = true;
            self.kill(ExitReason::OutputLimit);
        }
    }

    /// A packet of the supervisor, or its end. Answers whether the supervisor died without having reported the end.
    pub(crate) fn supervisor_ready(&mut self, owner: Option<&mut Connection>) -> bool {
        let Some((control, _)) = &self.supervisor else {
            return false;
        };
        match orders::receive(control.as_fd()) {
            Received::Nothing => false,
            Received::Packet(Report::Started(pid)) => {
                self.pid = Some(pid);
                if let (Some(connection), Some(owner)) = (owner, self.owner) {
                    connection.send(owner.stream, &Reply::Started { pid });
                }
                false
            }
            Received::Packet(Report::Failed(message)) => {
                self.fail(&message, owner);
                false
            }
            Received::Packet(Report::Exited(ended)) => {
                self.end(ended);
                false
            }
            Received::End => {
                self.supervisor = None;
                let lost = self.ended.is_none();
                if lost && !self.finished {
                    self.end(Ended {
                        code: None,
                        signal: None,
                        reason: self.killed.unwrap_or(ExitReason::Lost),
                        cpu_ms: None,
                        survivors: 0,
                    });
                }
                lost
            }
        }
    }

    fn fail(&mut self, message: &str, owner: Option<&mut Connection>) {
        if let (Some(connection), Some(Owner { stream, .. })) = (owner, self.owner.take()) {
            connection.refuse(stream, ErrorCode::SpawnFailed, message);
        }
        self.abandon();
    }

    fn end(&mut self, ended: Ended) {
        for pipe in &mut self.outputs {
            pipe.mark_end();
        }
        self.stdin.close();
        self.ended = Some((ended, Instant::now() + GRACE));
    }

    /// Reports the end when its time has come.
    pub(crate) fn finish_when_drained(&mut self, owner: Option<&mut Connection>) {
        let Some((ended, deadline)) = &self.ended else {
            return;
        };
        let all_closed = self.outputs.iter().all(OutputPipe::is_closed);
        let drained = self.outputs.iter().all(|pipe| pipe.must_read() == 0);
        let waited = drained && Instant::now() >= *deadline;
        if self.finished || !(all_closed || waited || self.discarding) {
            return;
        }
        let report = ExitReport {
            code: ended.code,
            signal: ended.signal,
            reason: ended.reason,
            cpu_ms: ended.cpu_ms,
            output_bytes: self.output_bytes,
            survivors: ended.survivors,
        };
        self.discarding = true;
        self.finished = true;
        if let Some(kept) = &mut self.kept {
            kept.report = Some(report);
        } else if let (Some(connection), Some(Owner { stream, .. })) = (owner, self.owner.take()) {
            connection.end(stream, &Reply::Exited(report));
        }
    }

    /// Nobody wants anything of it any more: output is thrown away, nothing will be reported, and its name is free.
    pub(crate) fn abandon(&mut self) {
        self.owner = None;
        self.kept = None;
        self.discarding = true;
        self.finished = true;
        self.stdin.close();
    }

    /// The connection is gone. A named command goes on, any other is killed.
    pub(crate) fn disown(&mut self) {
        self.detach();
        if self.kept.is_none() {
            self.kill(ExitReason::Killed);
            self.abandon();
        }
    }

    /// Ends the whole tree; `Exited` follows.
    pub(crate) fn kill(&mut self, reason: ExitReason) {
        if self.ended.is_some() || self.finished {
            return;
        }
        self.killed.get_or_insert(reason);
        match &self.supervisor {
            Some((control, _)) => {
                orders::order(control.as_fd(), &Order::Kill(reason));
                self.overdue = Overdue::from(Instant::now());
            }
            None => self.end(Ended { code: None, signal: None, reason, cpu_ms: None, survivors: 0 }),
        }
    }

    /// Everything is about to be killed: a supervisor that ends without a word did not get lost, and what nobody waits for now is
    /// wanted by nobody.
    pub(crate) fn expect_kill(&mut self, reason: ExitReason) {
        self.killed.get_or_insert(reason);
        if self.owner.is_none() {
            self.abandon();
        } else if let Some(kept) = &mut self.kept {
            kept.unwanted = true;
        }
    }

    pub(crate) fn signal(&self, signal: i32) {
        if let Some((control, _)) = &self.supervisor {
            orders::order(control.as_fd(), &Order::Signal(signal));
        }
    }
}
