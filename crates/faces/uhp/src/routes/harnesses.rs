//! Configured harnesses (UHP §6).

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::get;
use http::HeaderMap;

use super::{Answer, json};
use crate::auth::{Reader, Writer};
use crate::body;
use crate::names::Names;
use crate::state::FaceState;
use crate::wire::Deleted;
use crate::wire::harness::{Harness, HarnessList, HarnessWrite};
use crate::wire::ids;
use crate::wire::model::HarnessModels;

pub(super) fn routes() -> Router<FaceState> {
    Router::new()
        .route("/v1/harnesses", get(list).post(create))
        .route("/v1/harnesses/{harness_id}", get(show).put(update).delete(delete))
        .route("/v1/harnesses/{harness_id}/models", get(models))
}

async fn list(Reader(caller): Reader, State(state): State<FaceState>) -> Answer {
    let agents = state.engine.agent_list(&caller).await?;
    json(HarnessList { harnesses: agents.into_iter().map(Harness::from).collect() })
}

async fn create(Writer(caller): Writer, State(state): State<FaceState>, headers: HeaderMap, body: Body) -> Answer {
    let write: HarnessWrite = body::json(&headers, body, body::SMALL).await?;
    write.check()?;
    json(Harness::from(state.engine.agent_create(&caller, write.into_text()?).await?))
}

async fn show(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_harness(&names.first)?;
    json(Harness::from(state.engine.agent_get(&caller, id).await?))
}

async fn update(
    Writer(caller): Writer,
    State(state): State<FaceState>,
    names: Names,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let write: HarnessWrite = body::json(&headers, body, body::SMALL).await?;
    write.check()?;
    let id = ids::parse_harness(&names.first)?;
    // The harness in the path is missing before anything that the body names can be.
    state.engine.agent_get(&caller, id).await?;
    json(Harness::from(state.engine.agent_update(&caller, id, write.into_text()?).await?))
}

async fn delete(Writer(caller): Writer, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_harness(&names.first)?;
    state.engine.agent_delete(&caller, id).await?;
    json(Deleted::of(names.first))
}

async fn models(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_harness(&names.first)?;
    let agent = state.engine.agent_get(&caller, id).await?;
    json(HarnessModels::of(agent.id, agent.harness))
}
