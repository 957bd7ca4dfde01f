//! Turns that another server process has promoted: taken over when it handed them over, and settled when it was lost.

use std::time::Duration;

use stead_domain::changes::Changes;
use stead_domain::event::EventKind;
use stead_domain::lease::Lease;
use stead_domain::ports::{Exec, ExecEvent, ExecExit, ExitReason, RuntimeError};
use stead_domain::turn::{Turn, TurnEvent, TurnFailure, TurnFailureKind, TurnOutcome, TurnState};
use stead_domain::{EnvironmentId, Result, TurnId};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::Driving;
use super::follow::Followed;
use super::output::message;
use super::rows::Rows;
use super::run::Run;
use super::verdict::exit_status;
use crate::commit::store_failed;
use crate::engine::Engine;
use crate::handover::HandoverNote;

/// What a client reads on a turn that was cut short.
pub(super) const INTERRUPTED: &str = "interrupted: the server stopped while the task ran";

/// How long the rest of the output of a script that was cut off may take.
const DRAIN: Duration = Duration::from_secs(5);

/// How many log entries one read takes.
const READ: usize = 500;

impl Engine {
    /// Takes a turn over whose driver has left a note, and drives it on in a task of its own. False when it is not the note's any
    /// more.
    pub(crate) async fn take_over_turn(&self, turn: &Turn, note: HandoverNote) -> Result<bool> {
        // Before the row says that it is this process's: the sweep ends what nobody drives.
        let Some(driving) = self.turns.begin(turn.id) else { return Ok(false) };
        let mut rows = self.rows_of(turn.workspace_id, turn.id).await?;
        let taken = self
            .decide_on(&mut rows, |rows| {
                let theirs = rows.turn.lease.is_some_and(|lease| lease.holder == note.server);
                if !theirs || !matches!(rows.turn.state, TurnState::InProgress | TurnState::Cancelling) {
                    return Ok((Changes::new(), false));
                }
                let at = self.now();
                let event = TurnEvent::TakenOver(Lease::taken(self.server, at));
                Ok((Changes::new().update(rows.turn.clone().transition(event, at)?), true))
            })
            .await?;
        self.faults.point("turn.taken_over");
        self.remove_note(turn.id).await?;
        if taken {
            self.drive_on(Box::new(rows), note, driving);
        }
        Ok(taken)
    }

    fn drive_on(&self, rows: Box<Rows>, note: HandoverNote, driving: Driving) {
        let engine = self.clone();
        let id = rows.turn.id;
        let span = tracing::info_span!("turn", turn.id = %id, session.id = %rows.session.id);
        let work = async move {
            if rows.turn.state == TurnState::Cancelling {
                driving.cancel.cancel();
            }
            tracing::info!(turn.output_bytes = note.output_bytes, "a running task is taken over");
            let driven = async {
                let followed = match engine.pick_up(&rows).await? {
                    (run, Ok(exec)) => engine.follow(rows, exec, run, &driving).await,
                    (run, Err(error)) => Followed::lost(&engine, rows, run, error),
                };
                engine.finish(followed, &note.baseline).await
            };
            if let Err(error) = driven.await {
                tracing::error!(error = %error, cause = ?error.cause, "a task that was taken over is left to the next start");
            }
        };
        self.supervisor.spawn("drive a turn on", work.instrument(span));
    }

    /// The run of a turn as its log tells it, and its script.
    async fn pick_up(&self, rows: &Rows) -> Result<(Run, Result<Box<dyn Exec>, RuntimeError>)> {
        let mut run = self.patiently(|| self.reopen(rows.turn.id)).await?;
        let shown = self.patiently(|| self.shown(rows)).await?;
        // Everything that readers were shown is a beginning of what the log tells.
        run.unseen = run.unseen.get(shown..).unwrap_or_default().to_owned();
        if !run.unseen.is_empty() {
            run.pace.said(Instant::now());
        }
        let found = self.adopt_named(rows.environment.id, rows.turn.id, run.log.bytes).await;
        Ok((run, found))
    }

    async fn adopt_named(
        &self,
        environment: EnvironmentId,
        turn: TurnId,
        from: u64,
    ) -> Result<Box<dyn Exec>, RuntimeError> {
        let lost = || RuntimeError::Lost("the runtime does not know the script any more".to_owned());
        self.adopt_again(environment, turn, from).await.ok_or_else(lost)
    }

    async fn reopen(&self, turn: TurnId) -> Result<Run> {
        let mut run = Run::new(self.output_log(turn));
        run.log = self.reopen_output(turn, |stream, bytes| run.hear(stream, bytes)).await?;
        Ok(run)
    }

    /// How much of a turn's text readers were shown, in bytes.
    async fn shown(&self, rows: &Rows) -> Result<usize> {
        let (mut shown, mut after) = (0, 0);
        loop {
            let events = self.store.events_after(rows.session.id, after, READ).await.map_err(store_failed)?;
            let Some(last) = events.last() else { return Ok(shown) };
            after = last.sequence;
            for event in events.iter().filter(|event| event.turn_id == rows.turn.id) {
                if let EventKind::TextDelta { text, .. } = &event.kind {
                    shown += text.len();
                }
            }
        }
    }

    /// Ends a turn whose driver is lost: with the output that its log holds and, where its environment still runs, with what the
    /// runtime has kept besides. It is never replayed, and its environment stays as it is.
    pub(crate) async fn settle_cut_off(&self, turn: &Turn, adopted: bool) -> Result<()> {
        let mut rows = self.patiently(|| self.rows_of(turn.workspace_id, turn.id)).await?;
        if !matches!(rows.turn.state, TurnState::InProgress | TurnState::Cancelling) {
            return Ok(());
        }
        tracing::warn!(turn.id = %turn.id, session.id = %turn.session_id, "a task whose driver is lost is interrupted");
        let mut run = self.reopen(turn.id).await?;
        let (mut exit, mut unruly) = (None, false);
        if adopted {
            if let Ok(exec) = self.adopt_named(rows.environment.id, turn.id, run.log.bytes).await {
                exit = self.drain(exec, &mut run).await;
            }
            unruly = self.end_tree(rows.environment.id).await.is_err();
        }
        run.log.sync().await?;
        let (log, finished) = (run.log, run.transcript.finish());
        let outcome = TurnOutcome {
            items: vec![message(finished.text, false)],
            // One that was over before anybody looked is told of, all the same: nobody has collected what it left.
            exit: exit.filter(|exit| exit.reason == ExitReason::Exited).and_then(exit_status),
            failure: Some(TurnFailure::new(TurnFailureKind::Interrupted, INTERRUPTED)),
            output_bytes: log.bytes,
            omitted_bytes: finished.omitted,
            replaced_bytes: finished.replaced,
            ..TurnOutcome::default()
        };
        let end = TurnEvent::Ended { state: TurnState::Interrupted, outcome };
        self.end_turn_as(&mut rows, end, Vec::new(), unruly).await
    }

    /// Ends a script and takes what it has said until then into its log.
    async fn drain(&self, mut exec: Box<dyn Exec>, run: &mut Run) -> Option<ExecExit> {
        let until = Instant::now() + DRAIN;
        if exec.kill().await.is_err() {
            return None;
        }
        loop {
            match tokio::time::timeout_at(until, exec.next()).await {
                Ok(Ok(ExecEvent::Output(stream, bytes))) => {
                    run.keep(vec![(stream, bytes)]).await;
                    if !run.is_kept() || exec.acknowledge(run.log.bytes).await.is_err() {
                        return None;
                    }
                }
                Ok(Ok(ExecEvent::Exited(exit))) => return Some(exit),
                Ok(Err(_)) | Err(_) => return None,
            }
        }
    }
}
