//! Follows a running script to its end: its output goes into the log and is acknowledged, readers see its text, and it is ended when
//! its turn is cancelled.
//!
//! The runtime keeps what is not acknowledged. A script whose connection is lost is therefore taken up again where the log ends,
//! here a few times and after a hand-over by the next server process. When everything ends, nobody waits for what it has to say.

use std::time::Duration;

use futures_util::FutureExt as _;
use stead_domain::lease::Lease;
use stead_domain::ports::{Adopted, Exec, ExecEvent, ExecExit, ExitReason, RuntimeError};
use stead_domain::{EnvironmentId, TurnId};
use tokio::time::Instant;

use super::Driving;
use super::artifacts::Owner;
use super::display::Display;
use super::rows::Rows;
use super::run::{Piece, Run};
use crate::engine::Engine;
use crate::hub::Topic;

/// The most output that goes into the log at once, in bytes.
const BATCH: usize = 256 << 10;

/// How long a runtime may take to end a script whose time is over or that is cancelled: it gives the script's watcher three seconds
/// and the kernel ten.
const ANSWER: Duration = Duration::from_secs(15);

/// How often one script's connection may be lost.
const LOSSES: u32 = 20;

/// How long after a loss the runtime is dialled, and again when it does not answer.
const PAUSES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_secs(1),
];

/// How following a script ended.
#[derive(Debug)]
pub(super) enum End {
    /// The script is over.
    Exited(ExecExit),
    /// The runtime ought to have ended it in this way, and says nothing; its environment has to be ended from outside.
    Silent(ExecExit),
    /// Nobody can tell any more.
    Lost(RuntimeError),
    /// It goes on, and the next server process follows it.
    HandedOver,
}

/// A script that is followed, or was.
pub(super) struct Followed {
    pub(super) owner: Owner,
    pub(super) environment: EnvironmentId,
    /// Has the rows, and may still be at work on the last of the text.
    pub(super) display: Display,
    pub(super) run: Run,
    pub(super) end: End,
}

impl Followed {
    /// A script that nobody follows.
    pub(super) fn lost(engine: &Engine, rows: Box<Rows>, run: Run, error: RuntimeError) -> Self {
        let (owner, environment) = (Owner::from(&rows.turn), rows.environment.id);
        Self { owner, environment, display: Display::new(engine.clone(), rows), run, end: End::Lost(error) }
    }
}

/// What came next.
enum Next {
    Said(Result<ExecEvent, RuntimeError>),
    LogAgain,
    TextDue,
    Cancelled,
}

/// When a script must be over, whatever its runtime says, and how it ought to have ended.
struct Due {
    /// None when that is beyond what the clock can name.
    at: Option<Instant>,
    reason: ExitReason,
}

impl Due {
    async fn passed(&self) {
        match self.at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Something has come of it: what is still to come has its time as well.
    fn heard(&mut self) {
        self.at = self.at.map(|at| at.max(Instant::now() + ANSWER));
    }

    fn exit(&self) -> ExecExit {
        ExecExit { code: None, signal: None, reason: self.reason }
    }
}

/// Takes what else is there, so that a script that says much makes few appends; with what came behind the output.
fn gather(exec: &mut Box<dyn Exec>, first: Piece) -> (Vec<Piece>, Option<Result<ExecEvent, RuntimeError>>) {
    let (mut bytes, mut pieces) = (first.1.len(), vec![first]);
    while bytes < BATCH {
        match exec.next().now_or_never() {
            Some(Ok(ExecEvent::Output(stream, piece))) => {
                bytes += piece.len();
                pieces.push((stream, piece));
            }
            behind => return (pieces, behind),
        }
    }
    (pieces, None)
}

impl Engine {
    pub(super) async fn follow(
        &self,
        rows: Box<Rows>,
        mut exec: Box<dyn Exec>,
        mut run: Run,
        driving: &Driving,
    ) -> Followed {
        let (turn, session, environment) = (rows.turn.id, rows.session.id, rows.environment.id);
        let owner = Owner::from(&rows.turn);
        let (stopping, handing_over) = (self.supervisor.stopping(), self.turns.handing_over());
        let ending = self.supervisor.ending();
        let ran = rows.turn.started_at.map(|at| self.now().since(at)).unwrap_or_default();
        let left = self.budget(&rows.turn).time.saturating_sub(ran);
        let mut due = Due { at: Instant::now().checked_add(left + ANSWER), reason: ExitReason::TimeLimit };
        let mut display = Display::new(self.clone(), rows);
        let mut renewal = tokio::time::interval_at(Instant::now() + Lease::RENEWAL, Lease::RENEWAL);
        let (mut killed, mut losses, mut over, mut acknowledged) = (false, 0, None, 0);
        let end = loop {
            if let Some(end) = over.take_if(|_| run.is_kept()) {
                match end {
                    Ok(exit) => break End::Exited(exit),
                    Err(error @ RuntimeError::Lost(_)) if losses < LOSSES => {
                        losses += 1;
                        match self.adopt_again(environment, turn, run.log.bytes).await {
                            Some(again) => (exec, killed, acknowledged) = (again, false, 0),
                            None => break End::Lost(error),
                        }
                    }
                    Err(error) => break End::Lost(error),
                }
            }
            let next = tokio::select! {
                said = exec.next(), if run.is_kept() => Next::Said(said),
                () = run.due_again() => Next::LogAgain,
                () = run.pace.due(), if display.is_free() => Next::TextDue,
                () = display.done(), if !display.is_free() => continue,
                () = driving.cancel.cancelled(), if !killed => Next::Cancelled,
                () = handing_over.cancelled() => break End::HandedOver,
                () = due.passed(), if run.is_kept() => break End::Silent(due.exit()),
                () = ending.cancelled() => break End::Lost(RuntimeError::Lost("the server ends".to_owned())),
                _ = renewal.tick(), if display.is_free() => {
                    display.renew();
                    continue;
                }
                () = stopping.cancelled(), if !run.is_kept() => {
                    break End::Lost(RuntimeError::Refused("the output log takes nothing".to_owned()));
                }
            };
            match next {
                Next::Said(Ok(ExecEvent::Output(stream, bytes))) => {
                    let (pieces, behind) = gather(&mut exec, (stream, bytes));
                    run.keep(pieces).await;
                    due.heard();
                    self.faults.point("turn.output");
                    over = behind.map(over_by);
                }
                Next::Said(other) => over = Some(over_by(other)),
                Next::LogAgain => {
                    run.keep_again().await;
                    due.heard();
                }
                Next::TextDue => {
                    run.pace.shown(Instant::now());
                    match std::mem::take(&mut run.unseen) {
                        // Output beyond the message's head is still news to whoever reads it raw.
                        text if text.is_empty() => self.hub.wake(Topic::Session(session)),
                        text => display.show(text),
                    }
                }
                Next::Cancelled => {
                    killed = true;
                    if due.reason != ExitReason::Killed {
                        due = Due { at: Some(Instant::now() + ANSWER), reason: ExitReason::Killed };
                    }
                    if let Err(error) = exec.kill().await {
                        over = Some(Err(error));
                    }
                }
            }
            if acknowledged < run.log.bytes {
                acknowledged = run.log.bytes;
                // A connection that is lost says so when it is read from.
                let _ = exec.acknowledge(acknowledged).await;
            }
        };
        if matches!(end, End::Exited(_)) && display.is_free() && !run.unseen.is_empty() {
            // What a short script has said is shown while its end is looked into.
            display.show(std::mem::take(&mut run.unseen));
        }
        Followed { owner, environment, display, run, end }
    }

    /// Takes a script up again whose connection was lost, at this byte of its output. None when that is not possible.
    pub(super) async fn adopt_again(
        &self,
        environment: EnvironmentId,
        turn: TurnId,
        from: u64,
    ) -> Option<Box<dyn Exec>> {
        let name = turn.to_string();
        for pause in PAUSES {
            tokio::time::sleep(pause).await;
            if self.supervisor.is_ending() {
                return None;
            }
            // An environment that has ended took its script with it.
            if !self.provider.inspect(environment).await.is_ok_and(|observed| observed.running) {
                return None;
            }
            let Ok(runtime) = self.provider.link(environment).await else { continue };
            match runtime.adopt(&name, from).await {
                Ok(Adopted::Found(exec)) => return Some(exec),
                Ok(Adopted::Unknown) | Err(RuntimeError::Refused(_)) => return None,
                Err(RuntimeError::Lost(_)) => {}
            }
        }
        None
    }
}

/// The end that an event other than output is.
fn over_by(event: Result<ExecEvent, RuntimeError>) -> Result<ExecExit, RuntimeError> {
    match event {
        Ok(ExecEvent::Exited(exit)) => Ok(exit),
        Ok(ExecEvent::Output(..)) => Err(RuntimeError::Refused("output behind the end".to_owned())),
        Err(error) => Err(error),
    }
}
