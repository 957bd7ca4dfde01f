//! Turns: units of work in a session.
//!
//! ```text
//! queued ─claimed with promotion→ in_progress ─→ completed | failed(code) | cancelled | budget_reached | interrupted
//! queued ─cancel→ cancelled      in_progress ─cancel→ cancelling ─tree is gone→ cancelled
//! ```
//!
//! A server process that stops in order hands running turns over; its successor takes them over without a change of state. One that was
//! lost hands nothing over, and its turns are interrupted.
//!
//! `cancelling` lies between a cancel's admission and the receipt that the process tree is gone. `interrupted` comes from a
//! lost server, runtime or host and is never replayed. A turn that ends by itself while it is being cancelled counts as
//! cancelled, with the output it had.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::agent::Harness;
use crate::attachment::Pin;
use crate::digest::BlobId;
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, SessionId, TurnId, WorkspaceId};
use crate::item::Item;
use crate::lease::Lease;
use crate::limit::{Limit, LimitHit};
use crate::network::NetworkPolicy;
use crate::time::Timestamp;

/// Where a turn's life stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// Admitted; its environment is being made ready.
    Queued,
    /// Its input was given to the harness.
    InProgress,
    /// A cancel was admitted; its process tree is being ended.
    Cancelling,
    /// The harness ended well.
    Completed,
    /// The harness, or something it needs, failed.
    Failed,
    /// The caller cancelled it.
    Cancelled,
    /// A budget on time or steps was reached.
    BudgetReached,
    /// The server, the runtime or the host was lost; never replayed.
    Interrupted,
}

impl TurnState {
    /// Every state.
    pub const ALL: [TurnState; 8] = [
        Self::Queued,
        Self::InProgress,
        Self::Cancelling,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::BudgetReached,
        Self::Interrupted,
    ];

    /// The state as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::InProgress => "in_progress",
            Self::Cancelling => "cancelling",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::BudgetReached => "budget_reached",
            Self::Interrupted => "interrupted",
        }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether nothing can happen to the turn any more.
    pub const fn is_ended(self) -> bool {
        !matches!(self, Self::Queued | Self::InProgress | Self::Cancelling)
    }
}

/// The sort of reason for which a turn failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnFailureKind {
    /// The harness ended with an error.
    Harness,
    /// The server, runtime or host was lost meanwhile.
    Interrupted,
    /// The environment could not be made ready.
    Environment,
    /// A limit was reached.
    Limit,
}

impl TurnFailureKind {
    /// The kind as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Harness => "harness",
            Self::Interrupted => "interrupted",
            Self::Environment => "environment",
            Self::Limit => "limit",
        }
    }
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnFailure {
    /// The sort of reason.
    pub kind: TurnFailureKind,
    /// Which limit, when it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// A safe sentence.
    pub message: String,
}

impl TurnFailure {
    /// A failure for this reason.
    pub fn new(kind: TurnFailureKind, message: impl Into<String>) -> Self {
        Self { kind, limit: None, message: message.into() }
    }

    /// The failure of a turn that a limit ended.
    pub fn limit(limit: Limit, message: impl Into<String>) -> Self {
        Self { kind: TurnFailureKind::Limit, limit: Some(limit), message: message.into() }
    }
}

/// A file that the caller hands in with its input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Its name in the working directory.
    pub filename: String,
    /// Its bytes.
    pub blob: BlobId,
    /// Its size.
    pub bytes: u64,
}

/// What the caller asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct TurnInput {
    /// The work, as text.
    pub text: String,
    /// Files put into the working directory before the turn starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<InputFile>,
    /// The request's input exactly as the face received it, for reading back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbatim: Option<serde_json::Value>,
    /// Extra guidance for this turn only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It exited with this status.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// What a turn came to, beside its state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnOutcome {
    /// Its output items, in order.
    pub items: Vec<Item>,
    /// How the command of a shell turn ended.
    pub exit: Option<ExitStatus>,
    /// Why it failed, or which budget it reached.
    pub failure: Option<TurnFailure>,
    /// Limits that something in it ran into, beside the one that ended it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits_hit: Vec<LimitHit>,
    /// Files it left that were over a limit, each with the reason.
    pub excess: Vec<ExcessFile>,
    /// Bytes of raw output kept.
    pub output_bytes: u64,
    /// Bytes of output that the message leaves out between its head and its tail.
    #[serde(default)]
    pub omitted_bytes: u64,
    /// Bytes of output that were no UTF-8 and stand as U+FFFD in the message.
    #[serde(default)]
    pub replaced_bytes: u64,
}

/// A file that a turn left but that could not be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExcessFile {
    /// Its path relative to the working directory.
    pub path: String,
    /// Why it was not kept.
    pub reason: String,
}

/// One unit of work in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Its identity.
    pub id: TurnId,
    /// Its tenant.
    pub workspace_id: WorkspaceId,
    /// Its session.
    pub session_id: SessionId,
    /// 1, 2, 3, … within the session.
    pub number: i64,
    /// The turn that the caller continued.
    pub previous: Option<TurnId>,
    /// The agent it runs for.
    pub agent_id: AgentId,
    /// What runs it.
    pub harness: Harness,
    /// Where its life stands.
    pub state: TurnState,
    /// What was asked for.
    pub input: TurnInput,
    /// The project version it reads.
    pub reads: Option<Pin>,
    /// Wall-clock budget.
    pub time_limit: Option<Duration>,
    /// What it may reach, as decided when it was admitted; never more than the deployment allows when it runs.
    pub network: NetworkPolicy,
    /// Request fields that nobody acted on, by name.
    pub ignored_fields: Vec<String>,
    /// The model that was asked for by name.
    pub requested_model: Option<String>,
    /// Whether the caller wants it kept for later reads.
    pub store: bool,
    /// What it came to.
    pub outcome: TurnOutcome,
    /// Who drives it.
    pub lease: Option<Lease>,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// When its input was given to the harness.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// When its caller deleted the record of it.
    pub deleted_at: Option<Timestamp>,
    /// Row version for optimistic concurrency.
    pub row_version: i64,
}

/// What can happen to a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEvent {
    /// Its environment is ready, the harness prepared: the input is about to be delivered.
    Promoted(Lease),
    /// Another server process drives it from here on: the one that drove it handed it over.
    TakenOver(Lease),
    /// Whoever drives it is still at it.
    Renewed(Lease),
    /// The caller wants it to end.
    CancelRequested,
    /// The harness ended, or was ended, and its process tree is gone.
    Ended {
        /// One of the ended states.
        state: TurnState,
        /// What it came to.
        outcome: TurnOutcome,
    },
}

impl Turn {
    /// The one transition function of turns. It refuses what the diagram does not show; a cancel of an ended turn changes
    /// nothing and succeeds.
    pub fn transition(mut self, event: TurnEvent, at: Timestamp) -> Result<Self> {
        use TurnState as State;
        match (self.state, event) {
            (State::Queued, TurnEvent::Promoted(lease)) => {
                self.state = State::InProgress;
                self.lease = Some(lease);
                self.started_at = Some(at);
            }
            (State::InProgress | State::Cancelling, TurnEvent::TakenOver(lease)) => self.lease = Some(lease),
            (State::InProgress | State::Cancelling, TurnEvent::Renewed(lease))
                if self.lease.is_some_and(|held| held.holder == lease.holder) =>
            {
                self.lease = Some(lease);
            }
            (State::Queued, TurnEvent::CancelRequested) => self.end(State::Cancelled, at),
            (State::InProgress, TurnEvent::CancelRequested) => self.state = State::Cancelling,
            (state, TurnEvent::CancelRequested) if state == State::Cancelling || state.is_ended() => {}
            (State::Queued | State::InProgress | State::Cancelling, TurnEvent::Ended { state, outcome })
                if state.is_ended() =>
            {
                let cancelled = self.state == State::Cancelling && state != State::Interrupted;
                self.outcome = outcome;
                if cancelled {
                    self.outcome.failure = None;
                }
                self.end(if cancelled { State::Cancelled } else { state }, at);
            }
            (state, _) => {
                let message = format!("the turn is {} and cannot do that", state.as_str());
                return Err(Error::new(Code::SessionBusy, message));
            }
        }
        Ok(self)
    }

    fn end(&mut self, state: TurnState, at: Timestamp) {
        self.state = state;
        self.lease = None;
        self.finished_at = Some(at);
    }

    /// The outcome of a turn whose server, runtime or host was lost.
    pub fn interrupted(&self, message: &str) -> TurnEvent {
        let failure = TurnFailure::new(TurnFailureKind::Interrupted, message);
        let outcome = TurnOutcome { failure: Some(failure), ..self.outcome.clone() };
        TurnEvent::Ended { state: TurnState::Interrupted, outcome }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ids::ServerId;

    pub(crate) fn sample(state: TurnState) -> Turn {
        let uuid = uuid::Uuid::try_parse("018f3c2a7b4c7d3e9f6a5b4c3d2e1f00").unwrap();
        Turn {
            id: TurnId::from_uuid(uuid),
            workspace_id: WorkspaceId::from_uuid(uuid),
            session_id: SessionId::from_uuid(uuid),
            number: 1,
            previous: None,
            agent_id: AgentId::from_uuid(uuid),
            harness: Harness::Shell,
            state,
            input: TurnInput::default(),
            reads: None,
            time_limit: None,
            network: NetworkPolicy::Disabled,
            ignored_fields: vec![],
            requested_model: None,
            store: true,
            outcome: TurnOutcome::default(),
            lease: None,
            created_at: Timestamp::from_micros(1),
            started_at: None,
            finished_at: None,
            deleted_at: None,
            row_version: 1,
        }
    }

    #[test]
    fn only_who_drives_a_turn_renews_his_claim() {
        let id = |text: &str| ServerId::from_uuid(uuid::Uuid::try_parse(text).unwrap());
        let [holder, other] = ["018f3c2a7b4c7d3e9f6a5b4c3d2e1f00", "018f3c2a7b4c7d3e9f6a5b4c3d2e1f01"].map(id);
        let (begun, later) = (Timestamp::from_micros(9), Timestamp::from_micros(9_000_000));
        for state in [TurnState::InProgress, TurnState::Cancelling] {
            let turn = Turn { lease: Some(Lease::taken(holder, begun)), ..sample(state) };
            let renewed = turn.clone().transition(TurnEvent::Renewed(Lease::taken(holder, later)), later).unwrap();
            assert_eq!((renewed.state, renewed.lease), (state, Some(Lease::taken(holder, later))));
            assert!(turn.transition(TurnEvent::Renewed(Lease::taken(other, later)), later).is_err());
        }
    }

    #[test]
    fn every_state_meets_every_event() {
        let holder = ServerId::from_uuid(uuid::Uuid::try_parse("018f3c2a7b4c7d3e9f6a5b4c3d2e1f00").unwrap());
        let ended = |state| TurnEvent::Ended { state, outcome: TurnOutcome::default() };
        let events = [
            ("promoted", TurnEvent::Promoted(Lease { holder, until: Timestamp::from_micros(9) })),
            ("taken over", TurnEvent::TakenOver(Lease { holder, until: Timestamp::from_micros(9) })),
            ("renewed", TurnEvent::Renewed(Lease { holder, until: Timestamp::from_micros(9) })),
            ("cancel", TurnEvent::CancelRequested),
            ("completed", ended(TurnState::Completed)),
            ("failed", ended(TurnState::Failed)),
            ("interrupted", ended(TurnState::Interrupted)),
            ("ended as queued", ended(TurnState::Queued)),
        ];
        let expected = |state: TurnState, event: &str| match (state.as_str(), event) {
            ("queued", "promoted") => Some("in_progress"),
            ("in_progress" | "cancelling", "taken over") => Some(state.as_str()),
            ("queued", "cancel") => Some("cancelled"),
            ("in_progress" | "cancelling", "cancel") => Some("cancelling"),
            (ended, "cancel") => Some(match ended {
                "completed" => "completed",
                "failed" => "failed",
                "cancelled" => "cancelled",
                "budget_reached" => "budget_reached",
                _ => "interrupted",
            }),
            ("queued" | "in_progress" | "cancelling", "interrupted") => Some("interrupted"),
            ("cancelling", "completed" | "failed") => Some("cancelled"),
            ("queued" | "in_progress", "completed") => Some("completed"),
            ("queued" | "in_progress", "failed") => Some("failed"),
            _ => None,
        };
        for state in TurnState::ALL {
            for (name, event) in events.clone() {
                let end = sample(state).transition(event, Timestamp::from_micros(3)).ok().map(|t| t.state.as_str());
                assert_eq!(end, expected(state, name), "{} meets {name}", state.as_str());
            }
        }
    }
}
