//! Artifacts, one at a time (UHP §10). Ids never reach a file system: anything that is not an id names no file.

use axum::Router;
use axum::extract::State;
use axum::routing::get;

use super::Answer;
use crate::auth::Reader;
use crate::download::{self, Display};
use crate::errors::Failure;
use crate::names::Names;
use crate::state::FaceState;
use crate::wire::ids;

pub(super) fn routes() -> Router<FaceState> {
    Router::new()
        .route("/v1/containers/{container_id}/files/{file_id}/content", get(content))
        .route("/v1/containers/{container_id}/files/{file_id}/pdf", get(pdf))
}

async fn content(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let (session, file) = (ids::parse_container(&names.first)?, ids::parse_file(&names.second)?);
    let (artifact, file) = state.engine.artifact_open(&caller, session, file).await?;
    Ok(download::file(file, &artifact.path, Display::Attachment))
}

/// No preview is rendered here; a file that is not there is still missing first.
async fn pdf(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let (session, file) = (ids::parse_container(&names.first)?, ids::parse_file(&names.second)?);
    state.engine.artifact_open(&caller, session, file).await?;
    Err(Failure::no_preview())
}
