//! Builds.

use axum::Json;
use axum::extract::State;
use stead_domain::build::Build;

use super::named;
use super::query::Fresh;
use crate::auth::{Reader, Writer};
use crate::extract::{Path, Query};
use crate::refusal::Answer;
use crate::state::FaceState;
use crate::wire;

pub(super) type Named = Path<(String, String)>;

pub(crate) async fn start(
    Writer(caller): Writer,
    State(state): State<FaceState>,
    Path(project): Path<String>,
    Query(query): Query<Fresh>,
) -> Answer<Json<wire::Build>> {
    let fresh = query.is_set()?;
    let build = state.engine.build_start(&caller, named::project(&project)?, fresh).await?;
    Ok(Json(shown(&build)))
}

pub(crate) async fn get(
    Reader(caller): Reader,
    State(state): State<FaceState>,
    Path((project, number)): Named,
) -> Answer<Json<wire::Build>> {
    let build = state.engine.build_get(&caller, named::project(&project)?, named::build(&number)?).await?;
    Ok(Json(shown(&build)))
}

pub(crate) async fn cancel(
    Writer(caller): Writer,
    State(state): State<FaceState>,
    Path((project, number)): Named,
) -> Answer<Json<wire::Build>> {
    let build = state.engine.build_cancel(&caller, named::project(&project)?, named::build(&number)?).await?;
    Ok(Json(shown(&build)))
}

/// Gives up a finished version's files; the record stays.
pub(crate) async fn remove_version(
    Writer(caller): Writer,
    State(state): State<FaceState>,
    Path((project, number)): Named,
) -> Answer<Json<wire::Build>> {
    let build = state.engine.version_remove(&caller, named::project(&project)?, named::build(&number)?).await?;
    Ok(Json(shown(&build)))
}

pub(super) fn shown(build: &Build) -> wire::Build {
    let removed_at = build.version.as_ref().and_then(|version| version.removed_at);
    wire::Build {
        id: build.project_id.to_string(),
        object: "stead.build".to_owned(),
        version: build.number,
        state: build.state.as_str().to_owned(),
        stage: if build.state.is_ended() { String::new() } else { build.stage.as_str().to_owned() },
        fresh: build.fresh,
        started_at: build.started_at.as_seconds(),
        finished_at: build.finished_at.map(stead_domain::Timestamp::as_seconds),
        removed_at: removed_at.map(stead_domain::Timestamp::as_seconds),
        error: build.failure.as_ref().map(|failure| failure.message.clone()),
        failure_limit: limit(build),
        refused_hosts: build.failure.as_ref().map(|failure| failure.refused_hosts.clone()).unwrap_or_default(),
        failure_kind: build.failure.as_ref().map(|failure| failure.kind.as_str().to_owned()),
    }
}

fn limit(build: &Build) -> Option<String> {
    build.failure.as_ref().and_then(|failure| failure.limit).map(|limit| limit.as_str().to_owned())
}
