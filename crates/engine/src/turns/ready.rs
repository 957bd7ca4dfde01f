//! Makes the environment of a turn what the turn needs: made, running, with the right mounts and network.
//!
//! A start that succeeds is not settled by itself: it is handed on and settled in the commit that promotes the turn, which spares
//! the turn one commit. Whoever gets one and does not promote has to settle it.

use stead_domain::changes::Changes;
use stead_domain::environment::{Environment, EnvironmentEvent, EnvironmentState};
use stead_domain::lease::Lease;
use stead_domain::operation::{Operation, OperationEvent, OperationKind, OperationState};
use stead_domain::ports::StartSpec;
use stead_domain::time::Timestamp;
use stead_domain::turn::Turn;
use stead_domain::{Code, Error, OperationId, Result};

use super::rows::Rows;
use crate::answers::{Answer, Asked, Asking, provider_failed};
use crate::commit::store_failed;
use crate::engine::Engine;
use crate::operations::Ended;
use crate::waiting::Waiting;

/// Whether the turn's environment is what the turn needs.
pub(super) enum Readiness {
    /// It is; with the start that made it so, where that is not settled yet.
    Ready(Option<Asked>),
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

fn gone() -> Error {
    Error::new(Code::Internal, "an environment in between owns no operation")
}

impl Engine {
    pub(super) async fn make_ready(&self, rows: &mut Rows, waiting: &Waiting) -> Result<Readiness> {
        let reads = rows.reads.as_ref().map(|(project, build)| (project, build));
        let spec: StartSpec = self.start_spec(reads, &rows.turn.network)?;
        let spec = serde_json::to_string(&spec).map_err(Error::internal)?;
        match rows.environment.state {
            EnvironmentState::Creating | EnvironmentState::Starting => self.bring_up(rows, &spec, waiting).await,
            EnvironmentState::Stopping | EnvironmentState::Deleting => {
                let operation = rows.environment.operation_id.ok_or_else(gone)?;
                self.wait_for(&rows.turn, operation, waiting).await
            }
            EnvironmentState::Stopped if waiting.is_over() => Ok(too_late(&rows.turn, self.now(), None)),
            EnvironmentState::Stopped => match self.begin_start(rows, &spec).await? {
                true => self.bring_up(rows, &spec, waiting).await,
                false => Ok(Readiness::LookAgain),
            },
            EnvironmentState::Ready if rows.environment.running_with.as_deref() == Some(&spec) => {
                let observed = self.provider.inspect(rows.environment.id).await.map_err(provider_failed)?;
                if observed.running {
                    return Ok(Readiness::Ready(None));
                }
                let found = rows.environment.clone().transition(EnvironmentEvent::FoundStopped, self.now())?;
                self.write_back(Changes::new().update(found)).await?;
                self.line.freed();
                Ok(Readiness::LookAgain)
            }
            EnvironmentState::Ready => {
                self.begin_operation(rows.environment.clone(), OperationKind::Stop, None).await?;
                Ok(Readiness::LookAgain)
            }
            EnvironmentState::Deleted => Ok(Readiness::Impossible("the session's environment is gone".to_owned())),
        }
    }

    /// Records the start of a stopped environment, already claimed. False when it is not stopped any more.
    async fn begin_start(&self, rows: &mut Rows, spec: &str) -> Result<bool> {
        let id = OperationId::new(self.ids.as_ref());
        self.decide_on(rows, |rows| {
            if rows.environment.state != EnvironmentState::Stopped {
                return Ok((Changes::new(), false));
            }
            let (environment, operation) =
                self.claimed(rows.environment.clone(), id, OperationKind::Start, Some(spec.to_owned()))?;
            Ok((Changes::new().update(environment).insert(operation), true))
        })
        .await
    }

    /// Waits for an operation that this turn did not begin.
    async fn wait_for(&self, turn: &Turn, operation: OperationId, waiting: &Waiting) -> Result<Readiness> {
        match self.carry_out(operation, waiting).await? {
            Ended::Done => Ok(Readiness::LookAgain),
            Ended::Failed(message) => {
                Ok(Readiness::Impossible(format!("the environment could not be made ready: {message}")))
            }
            Ended::NotYet(message) => Ok(too_late(turn, self.now(), message)),
        }
    }

    /// Carries out the creation or start that the environment is in.
    async fn bring_up(&self, rows: &mut Rows, spec: &str, waiting: &Waiting) -> Result<Readiness> {
        let id = rows.environment.operation_id.ok_or_else(gone)?;
        if rows.operation.as_ref().is_none_or(|operation| operation.id != id) {
            rows.operation = self.store.operation_fetch(id).await.map_err(store_failed)?;
        }
        let mut tried = false;
        loop {
            let operation = rows.operation.clone().ok_or_else(gone)?;
            let ours = operation.lease.is_some_and(|lease| lease.holder == self.server);
            match operation.state {
                OperationState::Recorded if waiting.is_over() => {
                    return Ok(too_late(&rows.turn, self.now(), operation.error));
                }
                OperationState::Recorded => {
                    let backoff = waiting.backoff(tried, operation.next_attempt_at.since(self.now()));
                    if !backoff.is_zero() && !waiting.pause(backoff).await {
                        return Ok(too_late(&rows.turn, self.now(), operation.error));
                    }
                    self.claim_for(rows, spec).await?;
                }
                OperationState::Dispatched if ours => {
                    tried = true;
                    if let Some(readiness) = self.ask_in_turn(rows, operation, waiting).await? {
                        return Ok(readiness);
                    }
                    self.refresh(rows).await?;
                }
                OperationState::Done => return Ok(Readiness::LookAgain),
                _ => {
                    // What became of it is found out; whether it is tried again is decided here, in turn.
                    let found_out = self.wait_for(&rows.turn, id, &waiting.leaving()).await?;
                    if !matches!(found_out, Readiness::Impossible(_)) || waiting.is_over() {
                        return Ok(found_out);
                    }
                    self.refresh(rows).await?;
                    if rows.operation.as_ref().is_none_or(|operation| operation.state == OperationState::Failed) {
                        return Ok(found_out);
                    }
                }
            }
        }
    }

    /// Claims a creation or start of which nothing has happened, for what this turn needs: an earlier one may have waited for it in vain.
    async fn claim_for(&self, rows: &mut Rows, spec: &str) -> Result<()> {
        self.decide_on(rows, |rows| match &rows.operation {
            Some(operation) if operation.state == OperationState::Recorded => {
                let at = self.now();
                let operation = Operation { spec: Some(spec.to_owned()), ..operation.clone() };
                let claimed = operation.transition(OperationEvent::Claimed(Lease::taken(self.server, at)), at)?;
                Ok((Changes::new().update(claimed), ()))
            }
            _ => Ok((Changes::new(), ())),
        })
        .await
    }

    /// Asks the provider, behind everybody who waits for a place, and keeps the place at the operation meanwhile. None when an answer
    /// other than success was written down, or another task is at the operation.
    async fn ask_in_turn(&self, rows: &Rows, operation: Operation, waiting: &Waiting) -> Result<Option<Readiness>> {
        let (workspace, turn) = (rows.turn.workspace_id, rows.turn.id);
        let Some(mut at_it) = self.operations.enter(operation.id) else {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            return Ok(None);
        };
        let mut place = (!self.line.is_empty()).then(|| self.line.enter(workspace, turn));
        let mut said = "other tasks wait for a place before it".to_owned();
        loop {
            if let Some(place) = &place
                && waiting.while_trying(place.turn()).await.is_none()
            {
                // It is known not to have happened, which whoever comes next may rely on.
                self.settle(operation, Answer::Full(said.clone())).await?;
                return Ok(Some(too_late(&rows.turn, self.now(), Some(said))));
            }
            let asked = match self.ask(at_it, &operation, &rows.environment, waiting).await? {
                Asking::Answered(asked) => asked,
                Asking::Over => return Ok(Some(too_late(&rows.turn, self.now(), operation.error))),
            };
            match &asked.answer {
                Answer::Succeeded(_) => return Ok(Some(Readiness::Ready(Some(asked)))),
                Answer::Full(message) => {
                    if place.is_none() {
                        tracing::info!(reason = message, "a turn waits for a place");
                    }
                    said.clone_from(message);
                    at_it = asked.again();
                    place.get_or_insert_with(|| self.line.enter(workspace, turn)).refused();
                }
                Answer::Event(..) => {
                    self.settle_asked(operation, asked).await?;
                    return Ok(None);
                }
            }
        }
    }

    /// An operation of an environment, already claimed by this process, and the environment in it.
    pub(crate) fn claimed(
        &self,
        environment: Environment,
        id: OperationId,
        kind: OperationKind,
        spec: Option<String>,
    ) -> Result<(Environment, Operation)> {
        let at = self.now();
        let operation = Operation::record(id, &environment, kind, spec, at);
        let operation = operation.transition(OperationEvent::Claimed(Lease::taken(self.server, at)), at)?;
        let event = match kind {
            OperationKind::Create | OperationKind::Start => EnvironmentEvent::Needed(id),
            OperationKind::Stop => EnvironmentEvent::Stop(id),
            OperationKind::Delete => EnvironmentEvent::Delete(id),
        };
        Ok((environment.transition(event, at)?, operation))
    }

    /// Records an operation of an environment, already claimed by this process.
    pub(crate) async fn begin_operation(
        &self,
        environment: Environment,
        kind: OperationKind,
        spec: Option<String>,
    ) -> Result<OperationId> {
        let id = OperationId::new(self.ids.as_ref());
        let (environment, operation) = self.claimed(environment, id, kind, spec)?;
        self.write_back(Changes::new().update(environment).insert(operation)).await?;
        Ok(id)
    }
}
