//! What a turn came to: its output made durable, its process tree ended, its artifacts collected, and all of it committed with its
//! end. The commit is tried until the store takes it.

use std::sync::Arc;
use std::time::Duration;

use stead_domain::changes::{Changes, Removal};
use stead_domain::environment::EnvironmentState;
use stead_domain::event::EventKind;
use stead_domain::file::Artifact;
use stead_domain::operation::OperationKind;
use stead_domain::ports::{ExecExit, Runtime, RuntimeError};
use stead_domain::turn::{TurnEvent, TurnOutcome, TurnState};
use stead_domain::{EnvironmentId, OperationId, Result};
use tokio::time::Instant;

use super::artifacts::{Baseline, Collected, Owner};
use super::follow::{End, Followed};
use super::output::{OutputLog, message};
use super::rows::Rows;
use super::run::Run;
use super::verdict::{exit_status, has_failed, judge, judge_lost};
use crate::commit::{DISK, Pauses};
use crate::engine::Engine;

/// How often a runtime that does not answer is dialled before its files count as unreadable.
const DIALS: usize = 3;

/// How long a runtime may take to end everything; it gives the kernel ten seconds.
const SILENCE: Duration = Duration::from_secs(20);

impl Engine {
    /// Ends a turn whose script is over, or leaves it to the next server process.
    pub(super) async fn finish(&self, followed: Followed, before: &Baseline) -> Result<()> {
        if !matches!(followed.end, End::HandedOver) {
            return self.settle_turn(followed, before).await;
        }
        let Followed { display, run: Run { log, .. }, .. } = followed;
        // What is being shown must be shown, or not be, before the next one looks.
        let turn = display.into_rows().await.turn.id;
        log.sync().await?;
        self.write_note(turn, before, log.bytes).await?;
        tracing::info!(turn.output_bytes = log.bytes, "a running task is handed over");
        self.faults.point("turn.handed_over");
        Ok(())
    }

    async fn settle_turn(&self, followed: Followed, before: &Baseline) -> Result<()> {
        let Followed { owner, environment, display, run, end } = followed;
        let finished = run.transcript.finish();
        let mut outcome = TurnOutcome {
            output_bytes: run.log.bytes,
            omitted_bytes: finished.omitted,
            replaced_bytes: finished.replaced,
            ..TurnOutcome::default()
        };
        let (mut artifacts, mut unruly) = (Vec::new(), false);
        let shown_and_kept = async { tokio::join!(display.into_rows(), self.keep_log(&run.log)).0 };
        let (mut rows, verdict) = match end {
            End::Exited(exit) => {
                let looking = self.look_at(owner, environment, before, exit, &mut unruly);
                let ((collected, reached), rows) = tokio::join!(looking, shown_and_kept);
                outcome.excess = collected.excess;
                outcome.exit = exit_status(exit);
                artifacts = collected.artifacts;
                // A task that went well has come to something only if what it left is there.
                let verdict = match collected.lost && !has_failed(exit) {
                    true => judge_lost(&reached, self.supervisor.is_ending()),
                    false => judge(exit, &reached, &self.budget(&rows.turn)),
                };
                (rows, verdict)
            }
            End::Lost(error) => {
                let stopping = self.supervisor.is_ending();
                if stopping {
                    tracing::info!("a turn is interrupted because the server stops");
                } else {
                    tracing::warn!(error = %error, "a turn lost its runtime");
                }
                let (reached, rows) = if stopping {
                    // Its environment is being ended by whoever ends everything.
                    (Vec::new(), shown_and_kept.await)
                } else {
                    let told = tokio::join!(self.provider.limits_reached(environment, true), shown_and_kept);
                    unruly = self.end_tree(environment).await.is_err();
                    told
                };
                (rows, judge_lost(&reached, stopping))
            }
            End::Silent(exit) => {
                tracing::error!(environment.id = %environment, "a runtime does not end a script; its environment is ended");
                unruly = true;
                let (reached, rows) = tokio::join!(self.provider.limits_reached(environment, false), shown_and_kept);
                let verdict = judge(exit, &reached, &self.budget(&rows.turn));
                (rows, verdict)
            }
            End::HandedOver => return Ok(()),
        };
        outcome.failure = verdict.failure;
        outcome.limits_hit = verdict.limits_hit;
        outcome.items = vec![message(finished.text, verdict.state == TurnState::Completed)];
        self.faults.point("turn.collected");
        let end = TurnEvent::Ended { state: verdict.state, outcome };
        self.end_turn_as(&mut rows, end, artifacts, unruly).await
    }

    /// What the script left, and what it ran into.
    async fn look_at(
        &self,
        owner: Owner,
        environment: EnvironmentId,
        before: &Baseline,
        exit: ExecExit,
        unruly: &mut bool,
    ) -> (Collected, Vec<stead_domain::limit::Reached>) {
        match self.end_tree(environment).await {
            // The receipt: nothing of the turn runs any more, so nothing changes under the collector's hands.
            Ok(runtime) => {
                let collecting = self.collect_durably(runtime.as_ref(), owner, before);
                tokio::join!(collecting, self.provider.limits_reached(environment, has_failed(exit)))
            }
            Err(error) => {
                *unruly = true;
                let collected = Collected::unreadable(&error);
                (collected, self.provider.limits_reached(environment, has_failed(exit)).await)
            }
        }
    }

    /// Ends everything that runs in an environment. The runtime may have to be dialled again.
    pub(super) async fn end_tree(&self, environment: EnvironmentId) -> Result<Arc<dyn Runtime>, RuntimeError> {
        let mut pauses = Pauses::new();
        let mut dials = 0;
        loop {
            dials += 1;
            let ending = async {
                match self.provider.link(environment).await {
                    Ok(runtime) => runtime.kill_all().await.map(|()| runtime),
                    Err(error) => Err(RuntimeError::Lost(error.message)),
                }
            };
            let silent = |_| Err(RuntimeError::Refused("the runtime does not answer".to_owned()));
            let ended = tokio::time::timeout(SILENCE, ending).await.unwrap_or_else(silent);
            match ended {
                Err(RuntimeError::Lost(_)) if dials < DIALS => tokio::time::sleep(pauses.next()).await,
                ended => return ended,
            }
        }
    }

    /// Makes the log of a turn durable, as long as that can be hoped for.
    async fn keep_log(&self, log: &OutputLog) {
        if let Err(error) = self.while_hoping(Instant::now() + DISK, || log.sync()).await {
            tracing::error!(error = %error, cause = ?error.cause, "a turn's output could not be made durable");
        }
    }

    /// Commits the end of a turn together with everything else that its end means. A turn that has ended already stays.
    pub(crate) async fn end_turn(
        &self,
        rows: &mut Rows,
        state: TurnState,
        outcome: TurnOutcome,
        artifacts: Vec<Artifact>,
    ) -> Result<()> {
        self.end_turn_as(rows, TurnEvent::Ended { state, outcome }, artifacts, false).await
    }

    /// The same; something of an `unruly` turn may still run, for which its environment is stopped. The stop is recorded in the very
    /// commit that ends the turn: from then on the session may have a next one, which must not be hit.
    pub(super) async fn end_turn_as(
        &self,
        rows: &mut Rows,
        ended: TurnEvent,
        artifacts: Vec<Artifact>,
        unruly: bool,
    ) -> Result<()> {
        let environment = rows.environment.id;
        let stop = match unruly && self.provider.inspect(environment).await.is_ok_and(|observed| observed.running) {
            true => Some(OperationId::new(self.ids.as_ref())),
            false => None,
        };
        self.decide_on(rows, |rows| {
            if rows.turn.state.is_ended() {
                return Ok((Changes::new(), ()));
            }
            let (at, id) = (self.now(), rows.turn.id);
            let (turn, mut session) = (rows.turn.clone().transition(ended.clone(), at)?, rows.session.clone());
            session.observe(&turn, at);
            let mut changes = artifacts.iter().cloned().fold(Changes::new(), Changes::fact);
            for item in turn.outcome.items.clone() {
                changes = changes.event(session.event(id, EventKind::ItemCompleted { item }, at));
            }
            changes = changes.event(session.event(id, EventKind::TurnEnded, at));
            if rows.environment.state == EnvironmentState::Ready {
                let mut environment = rows.environment.clone();
                environment.idle_since = Some(at);
                changes = match stop {
                    None => changes.update(environment),
                    Some(stop) => {
                        let (environment, operation) = self.claimed(environment, stop, OperationKind::Stop, None)?;
                        changes.update(environment).insert(operation)
                    }
                };
            }
            Ok((changes.update(turn).update(session).remove(Removal::Deltas(id)), ()))
        })
        .await?;
        self.faults.point("turn.ended");
        if let Some(stop) = stop {
            tracing::warn!(environment.id = %environment, "a turn's processes do not end; its environment is stopped");
            self.carry_out_in_background(stop);
        }
        if rows.session.deleted_at.is_some() {
            // Its removal has waited for this.
            self.request_sweep();
        }
        Ok(())
    }
}
