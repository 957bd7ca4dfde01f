//! Builds.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use stead_domain::build::{Build, BuildFailureKind};
use stead_domain::key::Verb;

use super::named;
use super::query::{Begin, Fresh};
use crate::auth::Authenticated;
use crate::refusal::Answer;
use crate::state::FaceState;
use crate::wire;

type Named = Path<(String, String)>;

pub(crate) async fn start(
    State(state): State<FaceState>,
    Authenticated(caller): Authenticated,
    Path(project): Path<String>,
    Query(query): Query<Fresh>,
) -> Answer<Json<wire::Build>> {
    caller.require(Verb::Write)?;
    let fresh = query.is_set()?;
    let build = state.engine.build_start(&caller, named::project(&project)?, fresh).await?;
    Ok(Json(shown(&build)))
}

pub(crate) async fn get(
    State(state): State<FaceState>,
    Authenticated(caller): Authenticated,
    Path((project, number)): Named,
) -> Answer<Json<wire::Build>> {
    caller.require(Verb::Read)?;
    let build = state.engine.build_get(&caller, named::project(&project)?, named::build(&number)?).await?;
    Ok(Json(shown(&build)))
}

pub(crate) async fn cancel(
    State(state): State<FaceState>,
    Authenticated(caller): Authenticated,
    Path((project, number)): Named,
) -> Answer<Json<wire::Build>> {
    caller.require(Verb::Write)?;
    let build = state.engine.build_cancel(&caller, named::project(&project)?, named::build(&number)?).await?;
    Ok(Json(shown(&build)))
}

/// The raw log from an offset on, as it grows; the body ends when the build has ended. A body that is cut before that
/// ends without its last chunk, which an HTTP client reports.
pub(crate) async fn log(
    State(state): State<FaceState>,
    Authenticated(caller): Authenticated,
    Path((project, number)): Named,
    Query(query): Query<Begin>,
) -> Answer<Response> {
    caller.require(Verb::Read)?;
    let from = query.offset()?;
    let log = state.engine.build_follow(&caller, named::project(&project)?, named::build(&number)?, from).await?;
    let headers = [
        (CONTENT_TYPE.as_str(), "text/plain; charset=utf-8"),
        (CACHE_CONTROL.as_str(), "no-store"),
        ("x-accel-buffering", "no"),
    ];
    let offset = [(wire::LOG_OFFSET, from.to_string())];
    Ok((headers, offset, Body::from_stream(log)).into_response())
}

fn shown(build: &Build) -> wire::Build {
    wire::Build {
        id: build.project_id.to_string(),
        object: "stead.build".to_owned(),
        version: build.number,
        state: build.state.as_str().to_owned(),
        stage: if build.state.is_ended() { String::new() } else { build.stage.as_str().to_owned() },
        fresh: build.fresh,
        started_at: build.started_at.as_seconds(),
        finished_at: build.finished_at.map(stead_domain::Timestamp::as_seconds),
        error: build.failure.as_ref().map(|failure| failure.message.clone()),
        failure_limit: limit(build),
        failure_kind: build.failure.as_ref().map(|failure| kind(failure.kind).to_owned()),
    }
}

fn limit(build: &Build) -> Option<String> {
    build.failure.as_ref().and_then(|failure| failure.limit).map(|limit| limit.as_str().to_owned())
}

const fn kind(kind: BuildFailureKind) -> &'static str {
    match kind {
        BuildFailureKind::Step => "step",
        BuildFailureKind::Manifest => "manifest",
        BuildFailureKind::Limit => "limit",
        BuildFailureKind::Cancelled => "cancelled",
        BuildFailureKind::Interrupted => "interrupted",
        BuildFailureKind::Internal => "internal",
    }
}
