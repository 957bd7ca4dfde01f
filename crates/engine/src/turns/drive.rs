//! Brings an admitted turn to its end. A driver makes the environment ready by recorded operations, promotes the turn, runs its
//! harness and commits what came of it.
//!
//! It begins with the rows that the admission has written, or reads them: it does not matter which process admitted the turn.
//! A store that does not answer is asked again until it does; what a turn came to is never forgotten meanwhile.

use std::time::Duration;

use stead_domain::attachment::Attachment;
use stead_domain::session::Session;
use stead_domain::turn::{Turn, TurnFailure, TurnFailureKind, TurnOutcome, TurnState};
use stead_domain::{Code, Error, Result, TurnId, WorkspaceId};
use tracing::Instrument as _;

use super::Driving;
use super::ready::Readiness;
use super::rows::{Admitted, Rows};
use crate::commit::{Pauses, is_store_failure, store_failed};
use crate::engine::Engine;
use crate::waiting::Waiting;

/// How long one attempt to make an environment ready may take, whatever was waited before.
const ATTEMPT: Duration = Duration::from_secs(10);

impl Engine {
    /// Drives a turn to its end in a task of its own.
    pub(crate) fn drive(&self, workspace: WorkspaceId, driving: Driving, admitted: Option<Box<Admitted>>) {
        let engine = self.clone();
        self.supervisor.spawn("drive a turn", async move {
            let id = driving.id;
            let span = tracing::info_span!("turn", turn.id = %id, session.id = tracing::field::Empty);
            engine.drive_patiently(workspace, id, admitted, &driving).instrument(span).await;
        });
    }

    async fn drive_patiently(
        &self,
        workspace: WorkspaceId,
        id: TurnId,
        mut admitted: Option<Box<Admitted>>,
        driving: &Driving,
    ) {
        let stopping = self.supervisor.stopping();
        let mut pauses = Pauses::new();
        loop {
            let Err(error) = self.drive_to_end(workspace, id, admitted.take(), driving).await else { return };
            if stopping.is_cancelled() || self.leaves_queued() {
                tracing::warn!(error = %error, cause = ?error.cause, "a turn is left to the next start");
                return;
            }
            if is_store_failure(&error) {
                self.pause(&mut pauses, &error).await;
                continue;
            }
            tracing::error!(error = %error, cause = ?error.cause, "driving a turn failed");
            if let Err(error) = self.fail_turn(workspace, id, error.message).await {
                tracing::error!(error = %error, cause = ?error.cause, "ending a failed turn failed");
            }
            return;
        }
    }

    async fn drive_to_end(
        &self,
        workspace: WorkspaceId,
        id: TurnId,
        admitted: Option<Box<Admitted>>,
        driving: &Driving,
    ) -> Result<()> {
        let rows = match admitted {
            Some(admitted) => self.rows_after(*admitted).await?,
            None => self.rows_of(workspace, id).await?,
        };
        let mut rows = Box::new(rows);
        tracing::Span::current().record("session.id", tracing::field::display(rows.session.id));
        let waiting = self.waiting(&rows.turn, driving);
        loop {
            if rows.turn.state != TurnState::Queued || self.leaves_queued() {
                return Ok(());
            }
            match self.make_ready(&mut rows, &waiting).await? {
                Readiness::Ready(started) => match self.run(rows, started, driving).await? {
                    Some(again) => rows = again,
                    None => return Ok(()),
                },
                Readiness::LookAgain => {}
                // It waits on in the next server process.
                Readiness::Impossible(_) if self.leaves_queued() => return Ok(()),
                Readiness::Impossible(message) => {
                    return self.end_turn(&mut rows, TurnState::Failed, failed(message), Vec::new()).await;
                }
            }
            self.refresh(&mut rows).await?;
        }
    }

    /// How long a turn waits for its environment: within the server's bound, and for what fails in passing (there is no place, say)
    /// within its own budget as well. Both count from its admission, whatever server processes there were since; one whose time
    /// went by meanwhile has one attempt left, with time to end.
    fn waiting(&self, turn: &Turn, driving: &Driving) -> Waiting {
        let waited = self.now().since(turn.created_at);
        let most = self.settings.turn_time_limit;
        let budget = turn.time_limit.map_or(most, |limit| limit.min(most));
        let start_wait = self.settings.start_wait;
        let left = start_wait.saturating_sub(waited);
        let (budget, bound) = (budget.saturating_sub(waited).min(left), left.max(start_wait.min(ATTEMPT)));
        let called_off = [driving.cancel.clone(), self.turns.handing_over().clone(), self.supervisor.ending()];
        Waiting::of_turn(budget, bound, called_off)
    }

    /// Whether this process begins no turn any more: those that are queued stay so.
    pub(super) fn leaves_queued(&self) -> bool {
        self.turns.handing_over().is_cancelled() || self.supervisor.is_ending()
    }

    pub(crate) async fn turn_row(&self, workspace: WorkspaceId, id: TurnId) -> Result<Turn> {
        let turn = self.store.turn_fetch(workspace, id).await.map_err(store_failed)?;
        turn.ok_or_else(|| Error::new(Code::TurnNotFound, "the turn is gone"))
    }

    pub(crate) async fn session_row(&self, turn: &Turn) -> Result<Session> {
        let session = self.store.session_fetch(turn.workspace_id, turn.session_id).await.map_err(store_failed)?;
        session.ok_or_else(|| Error::new(Code::SessionNotFound, "the session is gone"))
    }

    pub(super) async fn primary_attachment(&self, turn: &Turn) -> Result<Attachment> {
        let attachments = self.store.attachments_of(turn.session_id).await.map_err(store_failed)?;
        let primary = attachments.into_iter().find(|attachment| attachment.name == Attachment::PRIMARY);
        primary.ok_or_else(|| Error::new(Code::Internal, "the session has lost its environment"))
    }

    /// Ends a turn that could not be driven, whatever state it is in.
    async fn fail_turn(&self, workspace: WorkspaceId, id: TurnId, message: String) -> Result<()> {
        let mut rows: Rows = self.patiently(|| self.rows_of(workspace, id)).await?;
        self.end_turn(&mut rows, TurnState::Failed, failed(message), Vec::new()).await
    }
}

fn failed(message: String) -> TurnOutcome {
    let failure = Some(TurnFailure::new(TurnFailureKind::Environment, message));
    TurnOutcome { failure, ..TurnOutcome::default() }
}
