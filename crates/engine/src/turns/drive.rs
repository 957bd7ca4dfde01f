//! Brings an admitted turn to its end. A driver looks only at stored state, so it does not matter which process admitted the
//! turn: it makes the environment ready by recorded operations, promotes the turn, runs its harness and commits what came of
//! it.

use stead_domain::attachment::Attachment;
use stead_domain::changes::{Changes, Removal};
use stead_domain::environment::{Environment, EnvironmentEvent, EnvironmentState};
use stead_domain::event::EventKind;
use stead_domain::lease::Lease;
use stead_domain::operation::{Operation, OperationEvent, OperationKind, OperationState};
use stead_domain::session::Session;
use stead_domain::time::Timestamp;
use stead_domain::turn::{Turn, TurnEvent, TurnFailure, TurnFailureKind, TurnOutcome, TurnState};
use stead_domain::{Code, Error, OperationId, Result, TurnId, WorkspaceId};

use super::Driving;
use crate::commit::store_failed;
use crate::engine::Engine;
use crate::operations::{Ended, provider_failed};
use crate::waiting::Waiting;

/// Whether the turn's environment is what the turn needs.
enum Readiness {
    /// It is.
    Ready,
    /// Something was done about it; look again.
    LookAgain,
    /// It cannot be made so.
    Impossible(String),
}

/// What a turn is told whose environment did not run in time: how long it waited, and what stood in the way.
fn too_late(turn: &Turn, now: Timestamp, reason: Option<String>) -> Readiness {
    let seconds = now.since(turn.created_at).as_secs().max(1);
    let unit = if seconds == 1 { "second" } else { "seconds" };
    let reason = reason.unwrap_or_else(|| "what makes it does not answer".to_owned());
    Readiness::Impossible(format!("the environment could not be made ready within {seconds} {unit}: {reason}"))
}

impl Engine {
    /// Drives a turn to its end in a task of its own, unless one does already.
    pub(crate) fn drive(&self, workspace: WorkspaceId, id: TurnId) {
        let engine = self.clone();
        self.supervisor.spawn("drive a turn", async move {
            let Some(driving) = engine.turns.begin(id) else { return };
            if let Err(error) = engine.drive_to_end(workspace, id, &driving).await {
                tracing::error!(turn.id = %id, error = %error, cause = ?error.cause, "driving a turn failed");
                if engine.supervisor.stopping().is_cancelled() {
                    return;
                }
                let failure = TurnFailure::new(TurnFailureKind::Environment, error.message);
                let outcome = TurnOutcome { failure: Some(failure), ..TurnOutcome::default() };
                if let Err(error) = engine.end_turn(workspace, id, TurnState::Failed, outcome, Changes::new()).await {
                    tracing::error!(turn.id = %id, error = %error, "ending a failed turn failed");
                }
            }
        });
    }

    async fn drive_to_end(&self, workspace: WorkspaceId, id: TurnId, driving: &Driving<'_>) -> Result<()> {
        let waiting = self.waiting(&self.turn_row(workspace, id).await?, driving);
        loop {
            let turn = self.turn_row(workspace, id).await?;
            if turn.state != TurnState::Queued {
                return Ok(());
            }
            let attachment = self.primary_attachment(&turn).await?;
            match self.make_ready(&turn, &attachment, &waiting).await? {
                Readiness::Ready => {
                    if self.run(&turn, &attachment, driving).await? {
                        return Ok(());
                    }
                }
                Readiness::LookAgain => {}
                Readiness::Impossible(message) => {
                    let failure = TurnFailure::new(TurnFailureKind::Environment, message);
                    let outcome = TurnOutcome { failure: Some(failure), ..TurnOutcome::default() };
                    return self.end_turn(workspace, id, TurnState::Failed, outcome, Changes::new()).await;
                }
            }
        }
    }

    /// How long a turn waits for its environment: within the server's bound, and for what fails in passing (there is no place, say)
    /// within its own budget as well, which counts from its admission.
    fn waiting(&self, turn: &Turn, driving: &Driving<'_>) -> Waiting {
        let most = self.settings.turn_time_limit;
        let budget = turn.time_limit.map_or(most, |limit| limit.min(most));
        let left = budget.saturating_sub(self.now().since(turn.created_at));
        Waiting::of_turn(left, self.settings.start_wait, driving.cancel.clone())
    }

    async fn make_ready(&self, turn: &Turn, attachment: &Attachment, waiting: &Waiting) -> Result<Readiness> {
        let environment = self.environment(attachment.environment_id).await?;
        let reads = match turn.reads {
            None => None,
            Some(pin) => Some(self.pinned(turn.workspace_id, pin).await?),
        };
        let spec = self.start_spec(reads.as_ref().map(|(project, build)| (project, build)), &turn.network)?;
        let spec = serde_json::to_string(&spec).map_err(Error::internal)?;
        match environment.state {
            EnvironmentState::Creating
            | EnvironmentState::Starting
            | EnvironmentState::Stopping
            | EnvironmentState::Deleting => {
                let operation = environment
                    .operation_id
                    .ok_or_else(|| Error::new(Code::Internal, "an environment in between owns no operation"))?;
                self.bring_up_to_date(operation, &spec).await?;
                match self.carry_out(operation, waiting).await? {
                    Ended::Done => Ok(Readiness::LookAgain),
                    Ended::Failed(message) => {
                        Ok(Readiness::Impossible(format!("the environment could not be made ready: {message}")))
                    }
                    Ended::NotYet(message) => Ok(too_late(turn, self.now(), message)),
                }
            }
            EnvironmentState::Stopped if waiting.is_over() => Ok(too_late(turn, self.now(), None)),
            EnvironmentState::Stopped => {
                self.begin_operation(environment, OperationKind::Start, Some(spec)).await?;
                Ok(Readiness::LookAgain)
            }
            EnvironmentState::Ready if environment.running_with.as_deref() == Some(&spec) => {
                let observed = self.provider.inspect(environment.id).await.map_err(provider_failed)?;
                if observed.running {
                    return Ok(Readiness::Ready);
                }
                let found = environment.transition(EnvironmentEvent::FoundStopped, self.now())?;
                self.write_back(Changes::new().update(found)).await?;
                Ok(Readiness::LookAgain)
            }
            EnvironmentState::Ready => {
                self.begin_operation(environment, OperationKind::Stop, None).await?;
                Ok(Readiness::LookAgain)
            }
            EnvironmentState::Deleted => Ok(Readiness::Impossible("the session's environment is gone".to_owned())),
        }
    }

    /// Lets a creation or start that an earlier turn waited for in vain run with what this turn needs. Nothing has happened of it, so
    /// what it shall run with is not settled either.
    async fn bring_up_to_date(&self, operation: OperationId, spec: &str) -> Result<()> {
        let operation = self.store.operation_fetch(operation).await.map_err(store_failed)?;
        match operation {
            Some(mut operation)
                if operation.state == OperationState::Recorded
                    && matches!(operation.kind, OperationKind::Create | OperationKind::Start)
                    && operation.spec.as_deref() != Some(spec) =>
            {
                operation.spec = Some(spec.to_owned());
                self.write_back(Changes::new().update(operation)).await
            }
            _ => Ok(()),
        }
    }

    /// Records an operation of an environment, already claimed by this process.
    pub(crate) async fn begin_operation(
        &self,
        environment: Environment,
        kind: OperationKind,
        spec: Option<String>,
    ) -> Result<OperationId> {
        let at = self.now();
        let id = OperationId::new(self.ids.as_ref());
        let operation = Operation::record(id, &environment, kind, spec, at);
        let operation = operation.transition(OperationEvent::Claimed(Lease::taken(self.server, at)), at)?;
        let event = match kind {
            OperationKind::Create | OperationKind::Start => EnvironmentEvent::Needed(id),
            OperationKind::Stop => EnvironmentEvent::Stop(id),
            OperationKind::Delete => EnvironmentEvent::Delete(id),
        };
        let environment = environment.transition(event, at)?;
        self.write_back(Changes::new().update(environment).insert(operation)).await?;
        Ok(id)
    }

    pub(crate) async fn turn_row(&self, workspace: WorkspaceId, id: TurnId) -> Result<Turn> {
        let turn = self.store.turn_fetch(workspace, id).await.map_err(store_failed)?;
        turn.ok_or_else(|| Error::new(Code::TurnNotFound, "the turn is gone"))
    }

    pub(crate) async fn session_row(&self, turn: &Turn) -> Result<Session> {
        let session = self.store.session_fetch(turn.workspace_id, turn.session_id).await.map_err(store_failed)?;
        session.ok_or_else(|| Error::new(Code::SessionNotFound, "the session is gone"))
    }

    async fn primary_attachment(&self, turn: &Turn) -> Result<Attachment> {
        let attachments = self.store.attachments_of(turn.session_id).await.map_err(store_failed)?;
        let primary = attachments.into_iter().find(|attachment| attachment.name == Attachment::PRIMARY);
        primary.ok_or_else(|| Error::new(Code::Internal, "the session has lost its environment"))
    }

    async fn environment_of(&self, turn: &Turn) -> Result<Option<Environment>> {
        let attachment = self.primary_attachment(turn).await?;
        self.store.environment_fetch(attachment.environment_id).await.map_err(store_failed)
    }

    /// Commits the end of a turn together with everything else that its end means. A turn that has ended already stays.
    pub(crate) async fn end_turn(
        &self,
        workspace: WorkspaceId,
        id: TurnId,
        state: TurnState,
        outcome: TurnOutcome,
        with: Changes,
    ) -> Result<()> {
        self.decide(|| async {
            let turn = self.turn_row(workspace, id).await?;
            if turn.state.is_ended() {
                return Ok((Changes::new(), ()));
            }
            let mut session = self.session_row(&turn).await?;
            let at = self.now();
            let turn = turn.transition(TurnEvent::Ended { state, outcome: outcome.clone() }, at)?;
            session.observe(&turn, at);
            let mut changes = with.clone();
            for item in turn.outcome.items.clone() {
                changes = changes.event(session.event(id, EventKind::ItemCompleted { item }, at));
            }
            changes = changes.event(session.event(id, EventKind::TurnEnded, at));
            if let Some(mut environment) = self.environment_of(&turn).await?
                && environment.state == EnvironmentState::Ready
            {
                environment.idle_since = Some(at);
                changes = changes.update(environment);
            }
            let changes = changes.update(turn).update(session);
            Ok((changes.remove(Removal::Deltas(id)), ()))
        })
        .await?;
        self.faults.point("turn.ended");
        self.request_sweep();
        Ok(())
    }
}
