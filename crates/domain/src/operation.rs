//! Operations: outside effects, recorded before they are made.
//!
//! ```text
//! recorded ─claimed(lease, generation)→ dispatched ─known→ done | failed(permanent?)
//!              └─not_dispatched→ recorded (backoff)   dispatched ─unknown→ uncertain ─read back→ done | failed | recorded(same id)
//! ```
//!
//! Its id becomes the name or label of what it makes, so that an interrupted call finds it again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::error::{Code, Error, Result};
use crate::ids::{EnvironmentId, OperationId, ServerId, WorkspaceId};
use crate::lease::Lease;
use crate::time::Timestamp;

/// What is done to the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// Make it, and run it.
    Create,
    /// Run it again.
    Start,
    /// Stop it; its files stay.
    Stop,
    /// Remove it with its files.
    Delete,
}

impl OperationKind {
    /// Every kind.
    pub const ALL: [OperationKind; 4] = [Self::Create, Self::Start, Self::Stop, Self::Delete];

    /// The kind as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Delete => "delete",
        }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Where an operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// Wished for; nobody is at it.
    Recorded,
    /// Claimed: the provider may have been asked.
    Dispatched,
    /// The asking was cut short: it is to be read back, never repeated blindly.
    Uncertain,
    /// It happened.
    Done,
    /// It is known not to have happened, and will not be tried again by itself.
    Failed,
}

impl OperationState {
    /// Every state.
    pub const ALL: [OperationState; 5] = [Self::Recorded, Self::Dispatched, Self::Uncertain, Self::Done, Self::Failed];

    /// The state as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Dispatched => "dispatched",
            Self::Uncertain => "uncertain",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether it is over.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed)
    }
}

/// One recorded outside effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its identity, and the label of what it makes.
    pub id: OperationId,
    /// Its tenant.
    pub workspace_id: WorkspaceId,
    /// The environment it is about.
    pub environment_id: EnvironmentId,
    /// The machine that carries it out.
    pub node: String,
    /// What is done.
    pub kind: OperationKind,
    /// Where it stands.
    pub state: OperationState,
    /// For create and start: the mount set and policy to run with, as JSON.
    pub spec: Option<String>,
    /// Fencing: counts claims.
    pub generation: i64,
    /// Who is at it.
    pub lease: Option<Lease>,
    /// Attempts that were not dispatched or failed in passing.
    pub attempts: i64,
    /// Not before this instant.
    pub next_attempt_at: Timestamp,
    /// What went wrong last.
    pub error: Option<String>,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// When it was over.
    pub finished_at: Option<Timestamp>,
    /// Row version for optimistic concurrency.
    pub row_version: i64,
}

/// What can happen to an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationEvent {
    /// A server takes it.
    Claimed(Lease),
    /// The provider could not be asked; try again later.
    NotDispatched(String),
    /// The provider's answer was lost, or the server that asked is gone.
    Unknown(String),
    /// It happened.
    Succeeded,
    /// The provider refused it for good.
    Refused(String),
    /// Reading back shows that it did not happen.
    ReadBackAbsent,
}

impl Operation {
    /// Records the wish.
    pub fn record(
        id: OperationId,
        environment: &Environment,
        kind: OperationKind,
        spec: Option<String>,
        at: Timestamp,
    ) -> Self {
        Self {
            id,
            workspace_id: environment.workspace_id,
            environment_id: environment.id,
            node: environment.node.clone(),
            kind,
            state: OperationState::Recorded,
            spec,
            generation: 0,
            lease: None,
            attempts: 0,
            next_attempt_at: at,
            error: None,
            created_at: at,
            finished_at: None,
            row_version: 1,
        }
    }

    /// The same with its claim renewed; none when it is not claimed by this holder.
    pub fn renewed(mut self, holder: ServerId, at: Timestamp) -> Option<Self> {
        let held = self.state == OperationState::Dispatched && self.lease.is_some_and(|lease| lease.holder == holder);
        self.lease = Some(Lease::taken(holder, at));
        held.then_some(self)
    }

    /// How long to wait after this many attempts: doubling from 100 ms, at most a minute.
    pub fn backoff(attempts: i64) -> Duration {
        let doublings = u32::try_from(attempts.clamp(1, 10)).unwrap_or(10) - 1;
        Duration::from_millis(100 << doublings).min(Duration::from_mins(1))
    }

    /// The one transition function of operations. It refuses what the diagram does not show.
    pub fn transition(mut self, event: OperationEvent, at: Timestamp) -> Result<Self> {
        use OperationState as State;
        match (self.state, event) {
            (State::Recorded, OperationEvent::Claimed(lease)) => {
                self.state = State::Dispatched;
                self.generation += 1;
                self.lease = Some(lease);
            }
            (State::Dispatched, OperationEvent::NotDispatched(error)) => self.retry(Some(error), at),
            (State::Dispatched, OperationEvent::Unknown(error)) => {
                self.state = State::Uncertain;
                self.lease = None;
                self.error = Some(error);
            }
            (State::Dispatched | State::Uncertain, OperationEvent::Succeeded) => {
                self.error = None;
                self.end(State::Done, at);
            }
            (State::Dispatched | State::Uncertain, OperationEvent::Refused(error)) => {
                self.error = Some(error);
                self.end(State::Failed, at);
            }
            (State::Uncertain, OperationEvent::ReadBackAbsent) => self.retry(None, at),
            (state, _) => {
                let message = format!("operation {} is {} and cannot do that", self.kind.as_str(), state.as_str());
                return Err(Error::new(Code::SessionBusy, message));
            }
        }
        Ok(self)
    }

    fn retry(&mut self, error: Option<String>, at: Timestamp) {
        self.state = OperationState::Recorded;
        self.lease = None;
        if error.is_some() {
            self.attempts += 1;
            self.next_attempt_at = at.plus(Self::backoff(self.attempts));
            self.error = error;
        }
    }

    fn end(&mut self, state: OperationState, at: Timestamp) {
        self.state = state;
        self.lease = None;
        self.finished_at = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NetworkPolicy;

    fn sample(state: OperationState) -> Operation {
        let uuid = uuid::Uuid::try_parse("018f3c2a7b4c7d3e9f6a5b4c3d2e1f00").unwrap();
        let (_, mut operation) = Environment::create(
            EnvironmentId::from_uuid(uuid),
            OperationId::from_uuid(uuid),
            WorkspaceId::from_uuid(uuid),
            "native",
            "node",
            NetworkPolicy::Disabled,
            "",
            Timestamp::from_micros(1),
        );
        operation.state = state;
        operation
    }

    #[test]
    fn every_state_meets_every_event() {
        let holder = ServerId::from_uuid(uuid::Uuid::try_parse("018f3c2a7b4c7d3e9f6a5b4c3d2e1f00").unwrap());
        let events = [
            ("claimed", OperationEvent::Claimed(Lease { holder, until: Timestamp::from_micros(9) })),
            ("not dispatched", OperationEvent::NotDispatched("x".into())),
            ("unknown", OperationEvent::Unknown("x".into())),
            ("succeeded", OperationEvent::Succeeded),
            ("refused", OperationEvent::Refused("x".into())),
            ("absent", OperationEvent::ReadBackAbsent),
        ];
        let expected = |state: OperationState, event: &str| match (state.as_str(), event) {
            ("recorded", "claimed") => Some("dispatched"),
            ("dispatched", "not dispatched") | ("uncertain", "absent") => Some("recorded"),
            ("dispatched", "unknown") => Some("uncertain"),
            ("dispatched" | "uncertain", "succeeded") => Some("done"),
            ("dispatched" | "uncertain", "refused") => Some("failed"),
            _ => None,
        };
        for state in OperationState::ALL {
            for (name, event) in events.clone() {
                let end = sample(state).transition(event, Timestamp::from_micros(3)).ok().map(|o| o.state.as_str());
                assert_eq!(end, expected(state, name), "{} meets {name}", state.as_str());
            }
        }
    }

    #[test]
    fn only_the_holder_renews_a_claim() {
        let id = |text: &str| ServerId::from_uuid(uuid::Uuid::try_parse(text).unwrap());
        let [holder, other] = ["018f3c2a7b4c7d3e9f6a5b4c3d2e1f00", "018f3c2a7b4c7d3e9f6a5b4c3d2e1f01"].map(id);
        let (begun, later) = (Timestamp::from_micros(9), Timestamp::from_micros(9_000_000));
        let mut operation = sample(OperationState::Dispatched);
        operation.lease = Some(Lease::taken(holder, begun));
        assert_eq!(operation.clone().renewed(holder, later).unwrap().lease, Some(Lease::taken(holder, later)));
        assert_eq!(operation.clone().renewed(other, later), None);
        operation.state = OperationState::Uncertain;
        assert_eq!(operation.renewed(holder, later), None);
    }

    #[test]
    fn a_read_back_keeps_the_id_and_a_claim_raises_the_fence() {
        let first = sample(OperationState::Uncertain);
        let again = first.clone().transition(OperationEvent::ReadBackAbsent, Timestamp::from_micros(3)).unwrap();
        assert_eq!((again.id, again.attempts), (first.id, first.attempts));
        assert_eq!(Operation::backoff(1), Duration::from_millis(100));
        assert!(Operation::backoff(60) <= Duration::from_mins(1));
    }
}
