//! Artifacts, one at a time (UHP §10). Ids never reach a file system: anything that is not an id names no file.

use axum::extract::State;
use http::{HeaderMap, Method};
use stead_domain::file::Artifact;
use stead_face_frame::Operation;

use super::{Answer, Routes};
use crate::auth::Reader;
use crate::download::{self, Display, Stored};
use crate::errors::Failure;
use crate::names::Names;
use crate::state::FaceState;
use crate::wire::ids;

pub(super) fn routes() -> Routes {
    Routes::new()
        .get(
            "/v1/containers/{container_id}/files/{file_id}/content",
            content,
            download::described(Operation::new("Download a file that a task left").refuses(&[404])),
        )
        .get(
            "/v1/containers/{container_id}/files/{file_id}/pdf",
            pdf,
            Operation::new("A preview of a file; this server renders none").refuses(&[404, 501]).always_refuses(),
        )
}

async fn content(
    Reader(caller): Reader,
    State(state): State<FaceState>,
    names: Names,
    method: Method,
    headers: HeaderMap,
) -> Answer {
    let (session, file) = (ids::parse_container(&names.first)?, ids::parse_file(&names.second)?);
    let artifact = state.engine.artifact_get(&caller, session, file).await?;
    let Artifact { path, blob, bytes, created_at, .. } = &artifact;
    let stored = Stored { path, blob: *blob, bytes: *bytes, modified_at: *created_at, display: Display::Attachment };
    stored.answer(&state.engine, &caller, &method, &headers).await
}

/// No preview is rendered here; a file that is not there is still missing first.
async fn pdf(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let (session, file) = (ids::parse_container(&names.first)?, ids::parse_file(&names.second)?);
    state.engine.artifact_get(&caller, session, file).await?;
    Err(Failure::no_preview())
}
