//! Counts what commits make of turns, builds and operations. A commit is where each of them ends, whoever drove it there.

use std::time::Duration;

use stead_domain::build::{Build, BuildState};
use stead_domain::changes::{Changes, Row, RowChange};
use stead_domain::event::EventKind;
use stead_domain::limit::Limit;
use stead_domain::operation::{Operation, OperationState};
use stead_domain::time::Timestamp;
use stead_domain::turn::Turn;
use stead_domain::{ProjectId, SessionId, TurnId};

/// Something to count once the commit is durable.
enum Step {
    TurnStarted { waited: Duration },
    TurnEnded { ids: (TurnId, SessionId), state: &'static str, ran: Option<Duration>, output_bytes: u64 },
    BuildEnded { of: (ProjectId, u32), state: BuildState, why: Option<Why>, ran: Option<Duration> },
    OperationEnded { kind: &'static str, outcome: &'static str },
}

/// The sort of reason for which a build failed, and the limit, where it was one.
type Why = (&'static str, Option<&'static str>);

/// What a commit will have done.
pub(crate) struct Steps(Vec<Step>);

fn between(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<Duration> {
    from.zip(to).map(|(from, to)| to.since(from))
}

fn of_turn(turn: &Turn, changes: &Changes) -> Option<Step> {
    let happened = |what: EventKind| changes.events.iter().any(|event| event.turn_id == turn.id && event.kind == what);
    if happened(EventKind::TurnEnded) {
        let (state, output_bytes) = (turn.state.as_str(), turn.outcome.output_bytes);
        let ids = (turn.id, turn.session_id);
        return Some(Step::TurnEnded { ids, state, ran: between(turn.started_at, turn.finished_at), output_bytes });
    }
    let waited = between(Some(turn.created_at), turn.started_at).filter(|_| happened(EventKind::TurnStarted));
    waited.map(|waited| Step::TurnStarted { waited })
}

/// A build's row changes once more when its version is given up.
fn of_build(build: &Build) -> Option<Step> {
    let given_up = build.version.as_ref().is_some_and(|version| version.removed_at.is_some());
    let ended = build.state.is_ended() && !given_up;
    let why = build.failure.as_ref().map(|failure| (failure.kind.as_str(), failure.limit.map(Limit::as_str)));
    let ran = between(Some(build.started_at), build.finished_at);
    ended.then_some(Step::BuildEnded { of: (build.project_id, build.number), state: build.state, why, ran })
}

fn of_operation(operation: &Operation) -> Option<Step> {
    let outcome = match operation.state {
        OperationState::Done => "done",
        OperationState::Failed => "failed",
        OperationState::Uncertain => "uncertain",
        OperationState::Recorded | OperationState::Dispatched => return None,
    };
    Some(Step::OperationEnded { kind: operation.kind.as_str(), outcome })
}

impl Steps {
    pub(crate) fn of(changes: &Changes) -> Self {
        let rows = changes.rows.iter().map(|change| match change {
            RowChange::Insert(row) | RowChange::Update(row) => row,
        });
        let steps = rows.filter_map(|row| match row {
            Row::Turn(turn) => of_turn(turn, changes),
            Row::Build(build) => of_build(build),
            Row::Operation(operation) => of_operation(operation),
            _ => None,
        });
        Self(steps.collect())
    }

    pub(crate) fn count(self) {
        for step in self.0 {
            match step {
                Step::TurnStarted { waited } => {
                    metrics::histogram!("stead_turn_wait_seconds").record(waited.as_secs_f64());
                }
                Step::TurnEnded { ids: (turn, session), state, ran, output_bytes } => {
                    let duration_ms = ran.map(|ran| ran.as_millis() as u64);
                    tracing::info!(
                        turn.id = %turn, session.id = %session, turn.state = state, turn.output_bytes = output_bytes, duration_ms,
                        "a turn has ended"
                    );
                    metrics::counter!("stead_turns_ended_total", "state" => state).increment(1);
                    metrics::counter!("stead_turn_output_bytes_total").increment(output_bytes);
                    if let Some(ran) = ran {
                        metrics::histogram!("stead_turn_duration_seconds").record(ran.as_secs_f64());
                    }
                }
                Step::BuildEnded { of: (project, number), state, why, ran } => {
                    let (state, duration_ms) = (state.as_str(), ran.map(|ran| ran.as_millis() as u64));
                    let (kind, limit) = why.map_or((None, None), |(kind, limit)| (Some(kind), limit));
                    tracing::info!(
                        project.id = %project, build.number = number, build.state = state, build.failure = kind, build.limit = limit,
                        duration_ms, "a build has ended"
                    );
                    metrics::counter!("stead_builds_ended_total", "state" => state).increment(1);
                }
                Step::OperationEnded { kind, outcome } => {
                    metrics::counter!("stead_operations_ended_total", "kind" => kind, "outcome" => outcome)
                        .increment(1);
                }
            }
        }
    }
}
