//! Carries out recorded operations. Whoever carries one out looks only at stored state: the claim is a commit, the call carries
//! the operation's id, and the outcome is written back under the claim's row version. An outcome that nobody knows is read
//! back from the provider, never repeated blindly.
//!
//! The provider is asked by a task of its own, which ends when the provider has answered. Who waits for the end may therefore
//! leave at any time, and leaves nothing half done.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stead_domain::changes::Changes;
use stead_domain::environment::{Certainty, Environment, EnvironmentEvent, EnvironmentFailure};
use stead_domain::lease::Lease;
use stead_domain::operation::{Operation, OperationEvent, OperationKind, OperationState};
use stead_domain::ports::{CommitError, Observed};
use stead_domain::{Code, EnvironmentId, Error, OperationId, Result};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::answers::Answer;
use crate::commit::store_failed;
use crate::engine::Engine;
use crate::waiting::Waiting;

/// Why an operation was given up.
const GIVEN_UP: &str = "its session was deleted before it was done";

pub(crate) use crate::answers::provider_failed;

/// How a wait for an operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It happened.
    Done,
    /// It did not, and will not by itself.
    Failed(String),
    /// The wait was over first. The operation stays open; with what the provider said last, where it said anything.
    NotYet(Option<String>),
}

/// The operations that a task of this process is at.
#[derive(Debug, Clone, Default)]
pub(crate) struct InFlight(Arc<Mutex<HashSet<OperationId>>>);

/// Held while a task is at an operation.
pub(crate) struct AtIt(InFlight, OperationId);

impl InFlight {
    pub(crate) fn enter(&self, id: OperationId) -> Option<AtIt> {
        // Not `then_some`: a guard made in vain would take the lock again when it is dropped, and free another's place.
        let entered = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        entered.then(|| AtIt(self.clone(), id))
    }

    /// Whether a task is at it.
    pub(crate) fn is_at(&self, id: OperationId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }
}

impl Drop for AtIt {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

impl Engine {
    /// Brings an operation to its end, waiting out its backoff, as long as `waiting` lets it. Safe to call from several places:
    /// one of them gets the claim, the others wait for the end.
    pub(crate) async fn carry_out(&self, id: OperationId, waiting: &Waiting) -> Result<Ended> {
        let stopping = self.supervisor.stopping();
        let mut asked = false;
        loop {
            let operation = self.store.operation_fetch(id).await.map_err(store_failed)?;
            let operation = operation.ok_or_else(|| Error::new(Code::Internal, "the operation is gone"))?;
            let said = operation.error.clone();
            match operation.state {
                OperationState::Done => return Ok(Ended::Done),
                OperationState::Failed => return Ok(Ended::Failed(said.unwrap_or_default())),
                _ if waiting.is_over() => return Ok(Ended::NotYet(said)),
                OperationState::Recorded if waiting.gives_up() => self.give_up(operation).await?,
                OperationState::Recorded if waiting.leaves() => return Ok(Ended::NotYet(said)),
                OperationState::Recorded => {
                    let backoff = waiting.backoff(asked, operation.next_attempt_at.since(self.now()));
                    if !backoff.is_zero() {
                        let goes_on = tokio::select! {
                            goes_on = waiting.pause(backoff) => goes_on,
                            () = stopping.cancelled() => true,
                        };
                        if !goes_on {
                            return Ok(Ended::NotYet(said));
                        }
                        continue_unless_stopping(&stopping)?;
                    }
                    asked = true;
                    self.claim(operation).await?;
                }
                OperationState::Dispatched if operation.lease.is_none_or(|lease| lease.holder != self.server) => {
                    self.take_over(operation).await?;
                }
                OperationState::Dispatched | OperationState::Uncertain => {
                    asked |= operation.state == OperationState::Dispatched;
                    match waiting.at(self.attempt(id)).await {
                        Some(outcome) => outcome?,
                        None => return Ok(Ended::NotYet(said)),
                    }
                }
            }
            continue_unless_stopping(&stopping)?;
        }
    }

    /// Goes on with an operation in a task of its own and returns when that has ended, or soon when another is at it.
    async fn attempt(&self, id: OperationId) -> Result<()> {
        let Some(at_it) = self.operations.enter(id) else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            return Ok(());
        };
        let (sender, receiver) = oneshot::channel();
        let engine = self.clone();
        self.supervisor.spawn("go on with an operation", async move {
            let span = tracing::info_span!("operation", operation.id = %id);
            let outcome = engine.go_on_with(id).instrument(span).await;
            drop(at_it);
            if let Err(Err(error)) = sender.send(outcome) {
                tracing::warn!(operation.id = %id, error = %error, "going on with an operation failed, and nobody waits for it");
            }
        });
        // A sender that is dropped unsent means a panic, which the supervisor logs.
        receiver.await.unwrap_or_else(|_| Err(Error::new(Code::Internal, "an operation was cut short")))
    }

    /// Asks the provider, or reads back what an earlier asking came to. The caller has the place at the operation; the task that
    /// had it before may have ended what the caller last saw, and a stop that is asked for once more would end what a later
    /// start has begun, so the row is read again.
    async fn go_on_with(&self, id: OperationId) -> Result<()> {
        let Some(operation) = self.store.operation_fetch(id).await.map_err(store_failed)? else { return Ok(()) };
        match operation.state {
            OperationState::Dispatched if operation.lease.is_some_and(|lease| lease.holder == self.server) => {
                self.dispatch(operation).await
            }
            OperationState::Uncertain => self.read_back(operation).await,
            _ => Ok(()),
        }
    }

    /// Takes an operation. When somebody was faster, what he wrote stays.
    async fn claim(&self, operation: Operation) -> Result<()> {
        let at = self.now();
        let claimed = operation.transition(OperationEvent::Claimed(Lease::taken(self.server, at)), at)?;
        self.write_back(Changes::new().update(claimed)).await
    }

    /// Gives up an operation that is known not to have happened, so that its environment is settled and can be deleted. The claim
    /// is the fence: whoever was about to ask the provider meets a newer row.
    async fn give_up(&self, operation: Operation) -> Result<()> {
        let environment = self.environment(operation.environment_id).await?;
        let (at, id) = (self.now(), operation.id);
        let failure = EnvironmentFailure {
            code: format!("{}_given_up", operation.kind.as_str()),
            message: GIVEN_UP.to_owned(),
            certainty: Certainty::NotDispatched,
            permanent: true,
            operation: Some(id),
            at,
        };
        let operation = operation.transition(OperationEvent::Claimed(Lease::taken(self.server, at)), at)?;
        let operation = operation.transition(OperationEvent::Refused(GIVEN_UP.to_owned()), at)?;
        let mut changes = Changes::new().update(operation);
        if environment.operation_id == Some(id) {
            changes = changes.update(environment.transition(EnvironmentEvent::Failed(failure), at)?);
        }
        self.write_back(changes).await
    }

    /// A claim of another server process: its own node's is dead (it holds the data directory's lock no longer), so its
    /// outcome is unknown; another machine's is waited for.
    async fn take_over(&self, operation: Operation) -> Result<()> {
        let expired = operation.lease.is_none_or(|lease| lease.is_expired(self.now()));
        if operation.node != self.node && !expired {
            tokio::time::sleep(Duration::from_millis(200)).await;
            return Ok(());
        }
        let event = OperationEvent::Unknown("the server was restarted meanwhile".to_owned());
        let uncertain = operation.transition(event, self.now())?;
        self.write_back(Changes::new().update(uncertain)).await
    }

    async fn dispatch(&self, operation: Operation) -> Result<()> {
        let environment = self.environment(operation.environment_id).await?;
        let answer = self.call(&operation, &environment).await;
        self.settle(operation, answer).await
    }

    /// Resolves an unknown outcome by reading what is there.
    async fn read_back(&self, operation: Operation) -> Result<()> {
        let environment = self.environment(operation.environment_id).await?;
        let observed = match self.provider.inspect(environment.id).await {
            Ok(observed) => observed,
            Err(error) => {
                tracing::warn!(environment.id = %environment.id, error = %error, "reading an environment back failed");
                tokio::time::sleep(Operation::backoff(operation.attempts + 3)).await;
                return Ok(());
            }
        };
        let Observed { exists, running, last_operation, handle } = observed;
        let happened = match operation.kind {
            OperationKind::Create | OperationKind::Start => running && last_operation == Some(operation.id),
            OperationKind::Stop => !running,
            OperationKind::Delete => !exists,
        };
        if happened {
            return self.settle(operation, Answer::Succeeded(handle)).await;
        }
        let again = operation.transition(OperationEvent::ReadBackAbsent, self.now())?;
        self.write_back(Changes::new().update(again)).await
    }

    /// A conflict means that somebody else wrote first; the caller looks again.
    pub(crate) async fn write_back(&self, changes: Changes) -> Result<()> {
        match self.commit(changes).await {
            Ok(()) | Err(CommitError::Conflict(_)) => Ok(()),
            Err(CommitError::Store(error)) => Err(store_failed(error)),
        }
    }

    pub(crate) async fn environment(&self, id: EnvironmentId) -> Result<Environment> {
        let environment = self.store.environment_fetch(id).await.map_err(store_failed)?;
        environment.ok_or_else(|| Error::new(Code::Internal, "the session's environment is gone"))
    }
}

fn continue_unless_stopping(stopping: &CancellationToken) -> Result<()> {
    if stopping.is_cancelled() {
        return Err(Error::new(Code::BackendUnavailable, "the server is stopping"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_at_a_time_is_at_an_operation() {
        let in_flight = InFlight::default();
        let id: OperationId = "op_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00".parse().unwrap();
        let first = in_flight.enter(id);
        assert!(first.is_some());
        assert!(in_flight.enter(id).is_none());
        assert!(in_flight.enter(id).is_none(), "the one in vain has freed the first one's place");
        drop(first);
        assert!(in_flight.enter(id).is_some());
    }
}
