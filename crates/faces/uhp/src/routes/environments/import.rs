//! A whole project at once (UHP Environments §3.1).

use super::{Answer, json};
use crate::auth::Writer;
use crate::body;
use crate::names::Names;
use crate::query::Query;
use crate::state::FaceState;
use crate::wire::environment::{ImportResult, ImportWrite};
use crate::wire::ids;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, header};

/// Whether the body is the JSON form; every other media type is an archive's, even a wrong one.
fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

pub(super) async fn import(
    Writer(caller): Writer,
    State(state): State<FaceState>,
    names: Names,
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let replace = query.flag("replace")?.unwrap_or(false);
    if is_json(&headers) {
        let write = ImportWrite::read(body::value(&headers, body, body::SMALL).await?)?;
        let replace = replace || write.replace;
        let repository = write.git;
        let id = ids::parse_environment(&names.first)?;
        return json(ImportResult::from(state.engine.source_import_git(&caller, id, replace, repository).await?));
    }
    let limit = state.engine.limits().import_bytes;
    body::check_length(&headers, limit)?;
    let id = ids::parse_environment(&names.first)?;
    // Half a gibibyte for an environment that is not there would be a long wait for a 404.
    state.engine.project_get(&caller, id).await?;
    let spooled = body::spool(&state.engine, &headers, body, limit).await?;
    json(ImportResult::from(state.engine.source_import(&caller, id, replace, spooled).await?))
}
