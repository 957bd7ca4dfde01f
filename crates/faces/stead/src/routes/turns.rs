//! Turns: what became of one.

use axum::Json;
use axum::extract::State;
use stead_domain::Timestamp;
use stead_domain::limit::LimitHit;
use stead_domain::turn::{ExitStatus, Turn, TurnFailure};
use stead_engine::TurnView;

use super::named;
use crate::auth::Reader;
use crate::extract::Path;
use crate::refusal::Answer;
use crate::state::FaceState;
use crate::wire;

pub(crate) async fn get(
    Reader(caller): Reader,
    State(state): State<FaceState>,
    Path(turn): Path<String>,
) -> Answer<Json<wire::Turn>> {
    let view = state.engine.turn_get(&caller, named::turn(&turn)?).await?;
    Ok(Json(shown(&view)))
}

pub(super) const fn exit(status: ExitStatus) -> wire::Exit {
    match status {
        ExitStatus::Code(code) => wire::Exit::Code(code),
        ExitStatus::Signal(signal) => wire::Exit::Signal(signal),
    }
}

pub(super) fn failure(failure: &TurnFailure) -> wire::TurnFailure {
    wire::TurnFailure {
        kind: failure.kind.as_str().to_owned(),
        limit: failure.limit.map(|limit| limit.as_str().to_owned()),
        message: failure.message.clone(),
    }
}

fn hit(hit: &LimitHit) -> wire::LimitHit {
    wire::LimitHit { limit: hit.limit.as_str().to_owned(), message: hit.message.clone() }
}

fn shown(view: &TurnView) -> wire::Turn {
    let Turn { id, session_id, number, state, ref outcome, reads, created_at, started_at, finished_at, .. } = view.turn;
    wire::Turn {
        id: id.to_string(),
        object: "stead.turn".to_owned(),
        response_id: id.spelled("resp"),
        session_id: session_id.to_string(),
        container_id: session_id.spelled("cntr"),
        number,
        state: state.as_str().to_owned(),
        exit: outcome.exit.map(exit),
        failure: outcome.failure.as_ref().map(failure),
        limits_hit: outcome.limits_hit.iter().map(hit).collect(),
        reads: reads.map(|pin| wire::Reads { project: pin.project_id.to_string(), version: pin.version }),
        artifacts: view
            .artifacts
            .iter()
            .map(|artifact| wire::TurnArtifact {
                id: artifact.id.to_string(),
                path: artifact.path.clone(),
                bytes: artifact.bytes,
            })
            .collect(),
        excess: outcome
            .excess
            .iter()
            .map(|file| wire::ExcessFile { path: file.path.clone(), reason: file.reason.clone() })
            .collect(),
        output_bytes: outcome.output_bytes,
        created_at: created_at.as_seconds(),
        started_at: started_at.map(Timestamp::as_seconds),
        finished_at: finished_at.map(Timestamp::as_seconds),
    }
}
