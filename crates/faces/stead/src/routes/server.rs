//! The server itself.

use axum::Json;
use axum::extract::State;
use stead_domain::key::Verb;

use crate::auth::Authenticated;
use crate::refusal::Answer;
use crate::state::FaceState;
use crate::wire;

pub(crate) async fn get(
    State(state): State<FaceState>,
    Authenticated(caller): Authenticated,
) -> Answer<Json<wire::Server>> {
    caller.require(Verb::Read)?;
    Ok(Json(wire::Server::clone(&state.server)))
}
