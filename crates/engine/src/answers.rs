//! What the provider answers when it is asked to carry an operation out, and what that means for the rows.

use stead_domain::changes::Changes;
use stead_domain::environment::{Certainty, Environment, EnvironmentEvent, EnvironmentFailure};
use stead_domain::lease::Lease;
use stead_domain::operation::{Operation, OperationEvent, OperationKind};
use stead_domain::ports::{Outcome, ProviderError, StartSpec};
use stead_domain::time::Timestamp;
use stead_domain::{Code, Error, Result};
use tokio::sync::oneshot;
use tracing::Instrument as _;

use crate::engine::Engine;
use crate::operations::AtIt;
use crate::waiting::Waiting;

/// What the provider's answer means for the operation.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// It happened; with the provider's record of what it made.
    Succeeded(Option<String>),
    /// It is known not to have happened, since there is no place now.
    Full(String),
    /// Anything else.
    Event(OperationEvent, Certainty),
}

/// An answer for whoever waits for it, with the place at the operation.
pub(crate) struct Asked {
    pub(crate) answer: Answer,
    at_it: AtIt,
}

/// What came of asking.
pub(crate) enum Asking {
    /// An answer.
    Answered(Asked),
    /// The wait was over first. The answer is settled when it comes.
    Over,
}

impl Asked {
    /// Keeps the place at the operation, to ask once more.
    pub(crate) fn again(self) -> AtIt {
        self.at_it
    }
}

impl Answer {
    fn of<T>(outcome: Outcome<T>, handle: impl FnOnce(T) -> Option<String>) -> Self {
        match outcome {
            Outcome::Known(Ok(value)) => Answer::Succeeded(handle(value)),
            Outcome::Known(Err(error)) if error.permanent => {
                Answer::Event(OperationEvent::Refused(error.message), Certainty::Known)
            }
            Outcome::NotDispatched(error) if error.permanent => {
                Answer::Event(OperationEvent::Refused(error.message), Certainty::NotDispatched)
            }
            Outcome::Known(Err(error)) | Outcome::NotDispatched(error) if error.is_full() => {
                Answer::Full(error.message)
            }
            Outcome::Known(Err(error)) | Outcome::NotDispatched(error) => {
                Answer::Event(OperationEvent::NotDispatched(error.message), Certainty::NotDispatched)
            }
            Outcome::Unknown(error) => Answer::Event(OperationEvent::Unknown(error.message), Certainty::Unknown),
        }
    }

    /// The operation and its environment as the answer leaves them.
    pub(crate) fn settled(
        self,
        operation: Operation,
        environment: Environment,
        at: Timestamp,
    ) -> Result<(Operation, Environment)> {
        let (event, certainty) = match self {
            Answer::Succeeded(handle) => {
                let event = EnvironmentEvent::Succeeded { handle, running_with: operation.spec.clone() };
                let environment = environment.transition(event, at)?;
                return Ok((operation.transition(OperationEvent::Succeeded, at)?, environment));
            }
            Answer::Full(message) => (OperationEvent::NotDispatched(message), Certainty::NotDispatched),
            Answer::Event(event, certainty) => (event, certainty),
        };
        let (message, permanent) = match &event {
            OperationEvent::Refused(message) => (message.clone(), true),
            OperationEvent::NotDispatched(message) | OperationEvent::Unknown(message) => (message.clone(), false),
            _ => (String::new(), false),
        };
        tracing::warn!(
            environment.id = %environment.id, operation.id = %operation.id, operation.kind = operation.kind.as_str(),
            error = %message, permanent, "an operation did not succeed"
        );
        let code = format!("{}_failed", operation.kind.as_str());
        let failure = EnvironmentFailure { code, message, certainty, permanent, operation: Some(operation.id), at };
        let environment = environment.transition(EnvironmentEvent::Failed(failure), at)?;
        Ok((operation.transition(event, at)?, environment))
    }
}

impl Engine {
    /// Asks the provider for an operation that this process has claimed, in a task of its own, and waits for the answer as long as
    /// `waiting` lets it. Whoever gets an answer settles it; one that comes later is settled by the task. The place at the operation
    /// goes along and comes back with the answer: whoever says of an operation that it has not happened must know that nobody
    /// else asks for it.
    pub(crate) async fn ask(
        &self,
        at_it: AtIt,
        operation: &Operation,
        environment: &Environment,
        waiting: &Waiting,
    ) -> Result<Asking> {
        let (sender, mut receiver) = oneshot::channel();
        let (engine, row, place) = (self.clone(), operation.clone(), environment.clone());
        self.supervisor.spawn("ask for an operation", async move {
            let kind = row.kind.as_str();
            let span = tracing::info_span!("operation", operation.id = %row.id, operation.kind = kind);
            let answer = engine.call(&row, &place).instrument(span).await;
            if let Err(asked) = sender.send(Asked { answer, at_it }) {
                engine.settle_late(row, asked).await;
            }
        });
        match waiting.at(&mut receiver).await {
            Some(Ok(asked)) => Ok(Asking::Answered(asked)),
            // A sender that is dropped unsent means a panic, which the supervisor logs.
            Some(Err(_)) => Err(Error::new(Code::Internal, "an operation was cut short")),
            None => {
                receiver.close();
                if let Ok(asked) = receiver.try_recv() {
                    let (engine, row) = (self.clone(), operation.clone());
                    self.supervisor.spawn("settle an operation", async move { engine.settle_late(row, asked).await });
                }
                Ok(Asking::Over)
            }
        }
    }

    /// Settles an answer that nobody waits for any more.
    async fn settle_late(&self, operation: Operation, asked: Asked) {
        let id = operation.id;
        if let Err(error) = self.settle_asked(operation, asked).await {
            tracing::warn!(operation.id = %id, error = %error, "settling an operation failed; it is read back later");
        }
    }

    /// Writes an answer down, and frees the place at the operation.
    pub(crate) async fn settle_asked(&self, operation: Operation, asked: Asked) -> Result<()> {
        let settled = self.settle(operation, asked.answer).await;
        drop(asked.at_it);
        settled
    }

    /// The call itself.
    pub(crate) async fn call(&self, operation: &Operation, environment: &Environment) -> Answer {
        let (id, kind) = (operation.id, operation.kind);
        self.faults.point(&format!("{}.recorded", kind.as_str()));
        let renewing = self.keep_claim(operation.clone());
        let calling = async {
            match kind {
                OperationKind::Create | OperationKind::Start if self.supervisor.is_ending() => {
                    let ending = ProviderError::passing("server_ends", "the server ended before it was made");
                    Answer::of::<()>(Outcome::NotDispatched(ending), |()| None)
                }
                OperationKind::Create | OperationKind::Start => {
                    let spec = match spec_of(operation) {
                        Ok(spec) => spec,
                        Err(error) => {
                            let unreadable = ProviderError::permanent("spec_unreadable", error.to_string());
                            return Answer::of::<()>(Outcome::NotDispatched(unreadable), |()| None);
                        }
                    };
                    let workspace = environment.workspace_id;
                    let outcome = match kind {
                        OperationKind::Create => self.provider.create(id, environment.id, workspace, &spec).await,
                        _ => self.provider.start(id, environment.id, workspace, &spec).await,
                    };
                    Answer::of(outcome, Some)
                }
                OperationKind::Stop => Answer::of(self.provider.stop(id, environment.id).await, |()| None),
                OperationKind::Delete => Answer::of(self.provider.delete(id, environment.id).await, |()| None),
            }
        };
        let answer = tokio::select! {
            answer = calling => answer,
            never = renewing => never,
        };
        self.faults.point(&format!("{}.called", kind.as_str()));
        if matches!(kind, OperationKind::Stop | OperationKind::Delete) && matches!(answer, Answer::Succeeded(_)) {
            self.line.freed();
        }
        answer
    }

    /// Renews the claim on an operation that takes long, as long as it is polled; it never ends by itself. A claim that cannot be
    /// renewed changes nothing here: what it was is written back under the row's version.
    async fn keep_claim<T>(&self, operation: Operation) -> T {
        loop {
            tokio::time::sleep(Lease::RENEWAL).await;
            if let Err(error) = self.renew_claim(&operation).await {
                tracing::warn!(operation.id = %operation.id, error = %error, "a claim could not be renewed");
            }
        }
    }

    async fn renew_claim(&self, operation: &Operation) -> Result<()> {
        let row = self.operation_row(operation.id).await?;
        let at = self.now();
        match row.renewed(self.server, at) {
            Some(renewed) => self.write_back(Changes::new().update(renewed)).await,
            None => Ok(()),
        }
    }

    /// Writes an answer down, on the rows as they are.
    pub(crate) async fn settle(&self, operation: Operation, answer: Answer) -> Result<()> {
        let kind = operation.kind;
        self.patiently(|| async {
            self.decide(|| async {
                let row = self.operation_row(operation.id).await?;
                if row.state.is_ended() || row.generation != operation.generation {
                    return Ok((Changes::new(), ()));
                }
                let environment = self.environment(operation.environment_id).await?;
                let (row, environment) = answer.clone().settled(row, environment, self.now())?;
                Ok((Changes::new().update(row).update(environment), ()))
            })
            .await
        })
        .await?;
        self.faults.point(&format!("{}.settled", kind.as_str()));
        Ok(())
    }

    async fn operation_row(&self, id: stead_domain::OperationId) -> Result<Operation> {
        let row = self.store.operation_fetch(id).await.map_err(crate::commit::store_failed)?;
        row.ok_or_else(|| Error::new(Code::Internal, "the operation is gone"))
    }
}

fn spec_of(operation: &Operation) -> Result<StartSpec> {
    let text = operation.spec.as_deref().unwrap_or_default();
    serde_json::from_str(text).map_err(Error::internal)
}

/// The public sentence for a provider's refusal.
pub(crate) fn provider_failed(error: ProviderError) -> Error {
    Error::new(Code::BackendUnavailable, error.message.clone()).because(error)
}
