//! Models: one answer for UHP (§6) and for OpenAI-style clients, which ask at the same path.

use stead_face_frame::Operation;

use super::{Answer, Routes, json};
use crate::auth::Reader;
use crate::errors::Failure;
use crate::names::Names;
use crate::wire::model::{ModelCatalog, ModelEntry};

pub(super) fn routes() -> Routes {
    Routes::new().get("/v1/models", list, Operation::new("Every model").answers::<ModelCatalog>()).get(
        "/v1/models/{model}",
        show,
        Operation::new("A model").answers::<ModelEntry>().refuses(&[404]),
    )
}

async fn list(_: Reader) -> Answer {
    json(ModelCatalog::current())
}

async fn show(_: Reader, names: Names) -> Answer {
    json(ModelEntry::find(&names.first_decoded()).ok_or_else(Failure::unknown_model)?)
}
