//! The server itself.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;

use crate::auth::{Anyone, Reader};
use crate::refusal::Answer;
use crate::state::FaceState;
use crate::wire;

pub(crate) async fn get(_: Reader, State(state): State<FaceState>) -> Answer<Json<wire::Server>> {
    Ok(Json(wire::Server::clone(&state.server)))
}

/// The document that describes every route of the server.
pub(crate) async fn openapi(_: Anyone, State(state): State<FaceState>) -> Response {
    ([(CONTENT_TYPE, "application/json; charset=utf-8")], state.document).into_response()
}
