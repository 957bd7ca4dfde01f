//! `GET /v1/uhp` (UHP §3).

use axum::Router;
use axum::routing::get;

use super::{Answer, json};
use crate::auth::Anyone;
use crate::state::FaceState;
use crate::wire::discovery::Discovery;

pub(super) fn routes() -> Router<FaceState> {
    Router::new().route("/v1/uhp", get(show))
}

async fn show(_: Anyone) -> Answer {
    json(Discovery::current())
}
