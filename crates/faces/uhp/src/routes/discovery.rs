//! `GET /v1/uhp` (UHP §3).

use stead_face_frame::Operation;

use super::{Answer, Routes, json};
use crate::auth::Anyone;
use crate::wire::discovery::Discovery;

pub(super) fn routes() -> Routes {
    Routes::new().get("/v1/uhp", show, Operation::new("What this server can do").answers::<Discovery>())
}

async fn show(_: Anyone) -> Answer {
    json(Discovery::current())
}
