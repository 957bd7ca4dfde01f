//! Models: one answer for UHP (§6) and for OpenAI-style clients, which ask at the same path.

use axum::Router;
use axum::routing::get;

use super::{Answer, json};
use crate::auth::Reader;
use crate::errors::Failure;
use crate::names::Names;
use crate::state::FaceState;
use crate::wire::model::{ModelCatalog, ModelEntry};

pub(super) fn routes() -> Router<FaceState> {
    Router::new().route("/v1/models", get(list)).route("/v1/models/{model}", get(show))
}

async fn list(_: Reader) -> Answer {
    json(ModelCatalog::current())
}

async fn show(_: Reader, names: Names) -> Answer {
    json(ModelEntry::find(&names.first_decoded()).ok_or_else(Failure::unknown_model)?)
}
