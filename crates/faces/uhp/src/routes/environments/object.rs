//! The environment object (UHP Environments §2 and §5).

use axum::body::Body;
use axum::extract::State;
use http::HeaderMap;
use stead_domain::{Code, Error};

use super::{Answer, json};
use crate::auth::{Reader, Writer};
use crate::body;
use crate::names::Names;
use crate::state::FaceState;
use crate::wire::environment::{Environment, EnvironmentList, EnvironmentWrite, harnesses_of};
use crate::wire::harness::HarnessName;
use crate::wire::{Deleted, ids};

pub(super) async fn list(Reader(caller): Reader, State(state): State<FaceState>) -> Answer {
    let views = state.engine.project_list(&caller).await?;
    json(EnvironmentList { environments: views.into_iter().map(Environment::listed).collect() })
}

pub(super) async fn create(
    Writer(caller): Writer,
    State(state): State<FaceState>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let mut write: EnvironmentWrite = body::json(&headers, body, body::SMALL).await?;
    let name = write.name.take();
    let name = name.ok_or_else(|| Error::new(Code::ProjectInvalid, "an environment needs a `name`").at("name"))?;
    json(Environment::whole(state.engine.project_create(&caller, write.into_text(name)?).await?))
}

pub(super) async fn show(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_environment(&names.first)?;
    json(Environment::whole(state.engine.project_get(&caller, id).await?))
}

pub(super) async fn update(
    Writer(caller): Writer,
    State(state): State<FaceState>,
    names: Names,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let mut write: EnvironmentWrite = body::json(&headers, body, body::SMALL).await?;
    let id = ids::parse_environment(&names.first)?;
    let name = match write.name.take() {
        Some(name) => name,
        None => state.engine.project_get(&caller, id).await?.project.name,
    };
    json(Environment::whole(state.engine.project_update(&caller, id, write.into_text(name)?).await?))
}

pub(super) async fn delete(Writer(caller): Writer, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_environment(&names.first)?;
    state.engine.project_delete(&caller, id).await?;
    json(Deleted::of(names.first))
}

pub(super) async fn harnesses(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_environment(&names.first)?;
    let agents = state.engine.project_agents(&caller, id).await?;
    json(harnesses_of(id, agents.into_iter().map(HarnessName::from).collect()))
}
