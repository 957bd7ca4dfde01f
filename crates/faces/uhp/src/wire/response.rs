//! Responses, as objects (UHP §7.2): what a task came to.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use stead_domain::limit::Limit;
use stead_domain::turn::{ExitStatus, Turn, TurnFailure, TurnFailureKind, TurnOutcome, TurnState};
use stead_engine::TurnView;

use super::error::ErrorObject;
use super::ids;
use super::network::Network;
use crate::assemble;
use crate::words;

/// A response.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Response {
    id: String,
    object: &'static str,
    created_at: i64,
    /// `in_progress`, `completed`, `failed`, `incomplete` or `cancelled`.
    pub status: &'static str,
    error: Option<ErrorObject>,
    incomplete_details: Option<IncompleteDetails>,
    previous_response_id: Option<String>,
    model: &'static str,
    /// What the agent said.
    pub output: Vec<OutputItem>,
    store: bool,
    /// Always `null`: the shell uses no model, and an invented zero would look like a free task.
    usage: Option<Value>,
    metadata: Metadata,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
struct IncompleteDetails {
    reason: &'static str,
}

/// Facts about a task; those that are ours alone begin with `stead_`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
struct Metadata {
    session_id: String,
    harness_id: String,
    container_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment_version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_fallback: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_fallback_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignored_fields: Vec<String>,
    /// What is configured on the harness and has no effect with its base.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stead_harness_ignored: Vec<String>,
    /// What the task could reach.
    stead_network: Network,
    /// The exit status of a shell turn's command.
    #[serde(skip_serializing_if = "Option::is_none")]
    stead_exit_status: Option<i32>,
    /// The signal that ended a shell turn's command.
    #[serde(skip_serializing_if = "Option::is_none")]
    stead_exit_signal: Option<i32>,
    /// Bytes of output that the message leaves out between its head and its tail.
    #[serde(skip_serializing_if = "Option::is_none")]
    stead_omitted_bytes: Option<u64>,
    /// Bytes of output that were no UTF-8 and stand as U+FFFD in the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    stead_replaced_bytes: Option<u64>,
    /// Why it failed, or which budget it reached, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    stead_failure: Option<Failed>,
    /// Limits that something in it ran into, beside the one that ended it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stead_limits_hit: Vec<Value>,
    /// Files that were over a limit and not kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stead_artifacts_excess: Vec<Value>,
}

/// Why a task failed, for programs; the sentence is the response's `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
struct Failed {
    /// `harness`, `environment`, `interrupted` or `limit`.
    kind: &'static str,
    /// Of the kind `limit`: `time`, `memory`, `disk`, `processes` or `output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'static str>,
    /// The sentence, where the response has no error because it is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl From<&TurnFailure> for Failed {
    fn from(failure: &TurnFailure) -> Self {
        let message = (failure.limit == Some(Limit::Time)).then(|| failure.message.clone());
        Self { kind: failure.kind.as_str(), limit: failure.limit.map(Limit::as_str), message }
    }
}

/// One item of a response's output.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputItem {
    /// Something the agent said.
    Message {
        /// Unique to the item.
        id: String,
        /// `in_progress`, `completed` or `incomplete`.
        status: &'static str,
        /// Always `assistant`.
        role: &'static str,
        /// One text part, or none while the item is just begun.
        content: Vec<ContentPart>,
    },
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    /// Text, and the files that came with it.
    OutputText {
        /// The text.
        text: String,
        /// The files.
        annotations: Vec<Annotation>,
    },
}

/// A file that the task left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Annotation {
    /// Always `container_file_citation`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The session's container.
    pub container_id: String,
    /// The file.
    pub file_id: String,
    /// Its path relative to the working directory.
    pub filename: String,
    /// Where it is downloaded, relative to the base URL.
    pub download_url: String,
    /// Where in the text it belongs: after it.
    pub start_index: usize,
    /// The same place.
    pub end_index: usize,
}

/// What a turn's state is called here: whatever is not ended is `in_progress`.
pub fn status(state: TurnState) -> &'static str {
    match state {
        TurnState::Queued | TurnState::InProgress | TurnState::Cancelling => "in_progress",
        TurnState::Completed => "completed",
        TurnState::Failed | TurnState::Interrupted => "failed",
        TurnState::Cancelled => "cancelled",
        TurnState::BudgetReached => "incomplete",
    }
}

/// The error of a failed task, which is an answer with status 200.
fn error(turn: &Turn) -> Option<ErrorObject> {
    if status(turn.state) != "failed" {
        return None;
    }
    let (reason, message) = match &turn.outcome.failure {
        Some(failure) => (failure.kind, failure.message.clone()),
        None => (TurnFailureKind::Harness, "the task failed".to_owned()),
    };
    Some(ErrorObject {
        kind: "harness_error",
        code: "harness_error",
        message,
        param: None,
        detail: Some(json!({ "stead_reason": reason.as_str() })),
    })
}

impl Metadata {
    fn of(turn: &Turn) -> Self {
        let substituted = turn.requested_model.as_ref().filter(|model| *model != turn.harness.model());
        let (excess, hit) = (turn.outcome.excess.iter(), turn.outcome.limits_hit.iter());
        // The core names an agent's fields and a request's in one list.
        let (of_harness, ignored_fields): (Vec<String>, Vec<String>) =
            turn.ignored_fields.iter().cloned().partition(|field| field.starts_with("agent."));
        Self {
            session_id: turn.session_id.to_string(),
            harness_id: ids::harness(turn.agent_id),
            container_id: ids::container(turn.session_id),
            environment: turn.reads.map(|pin| pin.project_id.to_string()),
            environment_version: turn.reads.map(|pin| pin.version),
            requested_model: substituted.cloned(),
            model_fallback: substituted.map(|_| true),
            model_fallback_reason: substituted.map(|_| "this harness runs no model"),
            ignored_fields,
            stead_harness_ignored: of_harness.iter().map(|field| words::field(field).to_owned()).collect(),
            stead_network: Network::from(&turn.network),
            stead_exit_status: match turn.outcome.exit {
                Some(ExitStatus::Code(code)) => Some(code),
                _ => None,
            },
            stead_exit_signal: match turn.outcome.exit {
                Some(ExitStatus::Signal(signal)) => Some(signal),
                _ => None,
            },
            stead_omitted_bytes: Some(turn.outcome.omitted_bytes).filter(|bytes| *bytes > 0),
            stead_replaced_bytes: Some(turn.outcome.replaced_bytes).filter(|bytes| *bytes > 0),
            stead_failure: turn.outcome.failure.as_ref().map(Failed::from),
            stead_limits_hit: hit.map(|hit| json!({ "limit": hit.limit.as_str(), "message": hit.message })).collect(),
            stead_artifacts_excess: excess.map(|file| json!({ "path": file.path, "reason": file.reason })).collect(),
        }
    }
}

impl Response {
    /// The response that a turn shows now.
    pub fn of(view: &TurnView) -> Self {
        let turn = &view.turn;
        Self {
            id: ids::response(turn.id),
            object: "response",
            created_at: turn.created_at.as_seconds(),
            status: status(turn.state),
            error: error(turn),
            incomplete_details: (turn.state == TurnState::BudgetReached)
                .then_some(IncompleteDetails { reason: "timeout" }),
            previous_response_id: turn.previous.map(ids::response),
            model: turn.harness.model(),
            output: assemble::output(view),
            store: turn.store,
            usage: None,
            metadata: Metadata::of(turn),
        }
    }

    /// The response as it was when the task was accepted: the first thing that a stream says.
    pub fn begun(view: &TurnView) -> Self {
        let turn = Turn { state: TurnState::Queued, outcome: TurnOutcome::default(), ..view.turn.clone() };
        Self::of(&TurnView { turn, session: view.session.clone(), artifacts: Vec::new() })
    }

    /// The last thing to say about a task whose record is gone: deleting a session cancels what runs in it.
    pub fn gone(view: &TurnView) -> Self {
        Self { status: "cancelled", error: None, incomplete_details: None, ..Self::of(view) }
    }
}
