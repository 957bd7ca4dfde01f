//! Environments: computers that agents work on.
//!
//! ```text
//! creating ─ok→ ready ─stop|idle→ stopping ─ok→ stopped ─needed→ starting ─ok→ ready
//! any settled ─delete|idle→ deleting ─ok→ deleted      ready ─found stopped→ stopped     any ─provider says gone→ (state kept) failure environment_lost, permanent
//! ```
//!
//! An -ing state owns one operation, which stays open through failures. When it is parked by a permanent failure whose
//! certainty is not unknown, the environment counts as settled and can be deleted.

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};
use crate::ids::{EnvironmentId, OperationId, WorkspaceId};
use crate::network::NetworkPolicy;
use crate::operation::{Operation, OperationKind};
use crate::time::Timestamp;

/// Where a session's working directory lies inside its environment: writable, private, and the only place artifacts come from.
pub const WORKSPACE: &str = "/workspace";

/// The home directory inside an environment: writable and kept with it, but no source of artifacts.
pub const HOME: &str = "/home/agent";

/// The user that everything in an environment runs as.
pub const USER: &str = "agent";

/// The egress proxy as an environment sees it, where its network policy has one.
pub const PROXY: &str = "http://127.0.0.1:3128";

/// Where an environment's life stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentState {
    /// Being made.
    Creating,
    /// Made, and running.
    Ready,
    /// Being stopped; its files stay.
    Stopping,
    /// Not running; its files are kept.
    Stopped,
    /// Being started again.
    Starting,
    /// Being deleted with its files.
    Deleting,
    /// Gone.
    Deleted,
}

impl EnvironmentState {
    /// Every state.
    pub const ALL: [EnvironmentState; 7] =
        [Self::Creating, Self::Ready, Self::Stopping, Self::Stopped, Self::Starting, Self::Deleting, Self::Deleted];

    /// The state as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Deleting => "deleting",
            Self::Deleted => "deleted",
        }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// How sure it is that a failed effect did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The provider was never asked.
    NotDispatched,
    /// The provider answered.
    Known,
    /// Nobody knows; it is resolved by reading, never by repeating.
    Unknown,
}

/// What went wrong with an environment; lies beside its state and clears on the next success unless permanent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentFailure {
    /// A stable code.
    pub code: String,
    /// A safe sentence.
    pub message: String,
    /// How sure it is that nothing happened.
    pub certainty: Certainty,
    /// Whether it stays until its cause changes.
    pub permanent: bool,
    /// The operation that failed.
    pub operation: Option<OperationId>,
    /// When.
    pub at: Timestamp,
}

/// A computer an agent works on, with a lifecycle of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Its identity.
    pub id: EnvironmentId,
    /// Its tenant.
    pub workspace_id: WorkspaceId,
    /// The provider that makes it.
    pub provider: String,
    /// The machine it lives on.
    pub node: String,
    /// Where its life stands.
    pub state: EnvironmentState,
    /// The open operation of an -ing state.
    pub operation_id: Option<OperationId>,
    /// What it may reach.
    pub network: NetworkPolicy,
    /// The provider's own record of what it made: opaque JSON.
    pub handle: Option<String>,
    /// A fingerprint of the mount set and policy it runs with; a turn that needs another has it re-made.
    pub running_with: Option<String>,
    /// What went wrong last.
    pub failure: Option<EnvironmentFailure>,
    /// Since when no turn uses it.
    pub idle_since: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Row version for optimistic concurrency.
    pub row_version: i64,
}

/// What can happen to an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvironmentEvent {
    /// A turn needs it running; carries the operation to record.
    Needed(OperationId),
    /// It shall stop; its files stay.
    Stop(OperationId),
    /// It shall go, with its files.
    Delete(OperationId),
    /// Its open operation succeeded; create and start carry the provider's record and what it runs with.
    Succeeded {
        /// The provider's record, where the operation made a new one.
        handle: Option<String>,
        /// What it now runs with.
        running_with: Option<String>,
    },
    /// Its open operation failed.
    Failed(EnvironmentFailure),
    /// It was found not running, though nobody stopped it.
    FoundStopped,
}

impl Environment {
    /// Whether no operation is at work, or the one that is has been parked for good and is known not to have happened.
    pub fn is_settled(&self) -> bool {
        match self.state {
            EnvironmentState::Ready | EnvironmentState::Stopped => true,
            EnvironmentState::Deleted => false,
            _ => self
                .failure
                .as_ref()
                .is_some_and(|failure| failure.permanent && failure.certainty != Certainty::Unknown),
        }
    }

    /// The operation that a state's open operation id stands for.
    pub fn open_operation(&self) -> Option<OperationKind> {
        match self.state {
            EnvironmentState::Creating => Some(OperationKind::Create),
            EnvironmentState::Starting => Some(OperationKind::Start),
            EnvironmentState::Stopping => Some(OperationKind::Stop),
            EnvironmentState::Deleting => Some(OperationKind::Delete),
            _ => None,
        }
    }

    /// The one transition function of environments. It refuses what the diagram does not show.
    pub fn transition(mut self, event: EnvironmentEvent, at: Timestamp) -> Result<Self> {
        use EnvironmentState as State;
        match (self.state, event) {
            (State::Stopped, EnvironmentEvent::Needed(operation)) => self.begin(State::Starting, operation),
            (State::Ready, EnvironmentEvent::Stop(operation)) => self.begin(State::Stopping, operation),
            (State::Deleted, EnvironmentEvent::Delete(_)) => return Err(self.refuse()),
            (_, EnvironmentEvent::Delete(operation)) if self.is_settled() => self.begin(State::Deleting, operation),
            (State::Creating | State::Starting, EnvironmentEvent::Succeeded { handle, running_with }) => {
                self.settle(State::Ready);
                self.handle = handle.or(self.handle);
                self.running_with = running_with;
                self.idle_since = Some(at);
            }
            (State::Stopping, EnvironmentEvent::Succeeded { .. }) => {
                self.settle(State::Stopped);
                self.running_with = None;
            }
            (State::Deleting, EnvironmentEvent::Succeeded { .. }) => {
                self.settle(State::Deleted);
                self.running_with = None;
                self.handle = None;
            }
            (
                State::Creating | State::Starting | State::Stopping | State::Deleting,
                EnvironmentEvent::Failed(failure),
            ) => {
                self.failure = Some(failure);
            }
            (State::Ready, EnvironmentEvent::FoundStopped) => {
                self.state = State::Stopped;
                self.running_with = None;
            }
            _ => return Err(self.refuse()),
        }
        self.updated_at = at;
        Ok(self)
    }

    fn begin(&mut self, state: EnvironmentState, operation: OperationId) {
        self.state = state;
        self.operation_id = Some(operation);
        self.idle_since = None;
        if self.failure.as_ref().is_some_and(|failure| !failure.permanent) || state == EnvironmentState::Deleting {
            self.failure = None;
        }
    }

    fn settle(&mut self, state: EnvironmentState) {
        self.state = state;
        self.operation_id = None;
        self.failure = None;
    }

    fn refuse(&self) -> Error {
        let message = format!("the environment is {} and cannot do that", self.state.as_str());
        Error::new(Code::SessionBusy, message)
    }

    /// A new environment together with the operation that makes it.
    #[expect(clippy::too_many_arguments, reason = "each is one recorded fact of the new row")]
    pub fn create(
        id: EnvironmentId,
        operation_id: OperationId,
        workspace_id: WorkspaceId,
        provider: &str,
        node: &str,
        network: NetworkPolicy,
        running_with: &str,
        at: Timestamp,
    ) -> (Self, Operation) {
        let environment = Self {
            id,
            workspace_id,
            provider: provider.to_owned(),
            node: node.to_owned(),
            state: EnvironmentState::Creating,
            operation_id: Some(operation_id),
            network,
            handle: None,
            running_with: None,
            failure: None,
            idle_since: None,
            created_at: at,
            updated_at: at,
            row_version: 1,
        };
        let operation =
            Operation::record(operation_id, &environment, OperationKind::Create, Some(running_with.to_owned()), at);
        (environment, operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuid() -> uuid::Uuid {
        uuid::Uuid::try_parse("018f3c2a7b4c7d3e9f6a5b4c3d2e1f00").unwrap()
    }

    fn sample(state: EnvironmentState) -> Environment {
        let (mut environment, _) = Environment::create(
            EnvironmentId::from_uuid(uuid()),
            OperationId::from_uuid(uuid()),
            WorkspaceId::from_uuid(uuid()),
            "native",
            "node",
            NetworkPolicy::Disabled,
            "",
            Timestamp::from_micros(1),
        );
        environment.state = state;
        if environment.open_operation().is_none() {
            environment.operation_id = None;
        }
        environment
    }

    fn failure(permanent: bool, certainty: Certainty) -> EnvironmentFailure {
        EnvironmentFailure {
            code: "x".into(),
            message: "x".into(),
            certainty,
            permanent,
            operation: None,
            at: Timestamp::from_micros(2),
        }
    }

    #[test]
    fn every_state_meets_every_event() {
        let operation = OperationId::from_uuid(uuid());
        let events = [
            ("needed", EnvironmentEvent::Needed(operation)),
            ("stop", EnvironmentEvent::Stop(operation)),
            ("delete", EnvironmentEvent::Delete(operation)),
            ("succeeded", EnvironmentEvent::Succeeded { handle: None, running_with: None }),
            ("failed", EnvironmentEvent::Failed(failure(false, Certainty::Known))),
            ("found stopped", EnvironmentEvent::FoundStopped),
        ];
        let expected = |state: EnvironmentState, event: &str| match (state.as_str(), event) {
            ("stopped", "needed") => Some("starting"),
            ("ready", "stop") => Some("stopping"),
            ("ready" | "stopped", "delete") => Some("deleting"),
            ("creating" | "starting", "succeeded") => Some("ready"),
            ("stopping", "succeeded") => Some("stopped"),
            ("deleting", "succeeded") => Some("deleted"),
            ("creating" | "starting" | "stopping" | "deleting", "failed") => Some(state.as_str()),
            ("ready", "found stopped") => Some("stopped"),
            _ => None,
        };
        for state in EnvironmentState::ALL {
            for (name, event) in events.clone() {
                let end = sample(state).transition(event, Timestamp::from_micros(3)).ok().map(|e| e.state.as_str());
                assert_eq!(end, expected(state, name), "{} meets {name}", state.as_str());
            }
        }
    }

    #[test]
    fn a_parked_environment_can_be_deleted_unless_its_outcome_is_unknown() {
        for (permanent, certainty, may) in [
            (true, Certainty::Known, true),
            (true, Certainty::NotDispatched, true),
            (true, Certainty::Unknown, false),
            (false, Certainty::Known, false),
        ] {
            let parked = sample(EnvironmentState::Creating)
                .transition(EnvironmentEvent::Failed(failure(permanent, certainty)), Timestamp::from_micros(3))
                .unwrap();
            let deleted =
                parked.transition(EnvironmentEvent::Delete(OperationId::from_uuid(uuid())), Timestamp::from_micros(4));
            assert_eq!(deleted.is_ok(), may);
        }
    }

    #[test]
    fn a_state_has_an_open_operation_exactly_while_it_is_in_between() {
        for state in EnvironmentState::ALL {
            let environment = sample(state);
            assert_eq!(environment.open_operation().is_some(), environment.operation_id.is_some());
        }
    }
}
