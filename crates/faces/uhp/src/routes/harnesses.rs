//! Configured harnesses (UHP §6).

use axum::body::Body;
use axum::extract::State;
use http::HeaderMap;
use stead_face_frame::Operation;

use super::{Answer, Routes, json};
use crate::auth::{Reader, Writer};
use crate::body;
use crate::names::Names;
use crate::state::FaceState;
use crate::wire::Deleted;
use crate::wire::harness::{Harness, HarnessList, HarnessWrite};
use crate::wire::ids;
use crate::wire::model::HarnessModels;

pub(super) fn routes() -> Routes {
    let one = "/v1/harnesses/{harness_id}";
    let write = |summary| Operation::new(summary).takes::<HarnessWrite>().answers::<Harness>();
    Routes::new()
        .get("/v1/harnesses", list, Operation::new("Every harness").answers::<HarnessList>())
        .post("/v1/harnesses", create, write("Make a harness").refuses(&[404, 422]))
        .get(one, show, Operation::new("A harness").answers::<Harness>().refuses(&[404]))
        .put(one, update, write("Change a harness").refuses(&[404, 409, 422]))
        .delete(one, delete, Operation::new("Remove a harness").answers::<Deleted>().refuses(&[404, 409]))
        .get(
            "/v1/harnesses/{harness_id}/models",
            models,
            Operation::new("The models of a harness").answers::<HarnessModels>().refuses(&[404]),
        )
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
