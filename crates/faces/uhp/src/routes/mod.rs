//! The routes, a file per resource. Each handler's first argument names what it needs of its caller.

mod containers;
mod discovery;
mod environments;
mod files;
mod harnesses;
mod models;
mod responses;
mod sessions;

use axum::extract::DefaultBodyLimit;
use axum::response::Response;
use axum::{Router, middleware};

use http::StatusCode;
use stead_face_frame::{Part, Row};

use crate::errors::Failure;
use crate::state::FaceState;
use crate::wire::error::ErrorEnvelope;
use crate::{reply, request_id};

/// What handlers return: an answer or a refusal.
type Answer = Result<Response, Failure>;

/// A JSON answer.
fn json(body: impl serde::Serialize) -> Answer {
    Ok(reply::json(StatusCode::OK, &body)?)
}

/// Routes of this face.
type Routes = stead_face_frame::Routes<FaceState>;

fn routes() -> Routes {
    discovery::routes()
        .merge(harnesses::routes())
        .merge(models::routes())
        .merge(responses::routes())
        .merge(sessions::routes())
        .merge(files::routes())
        .merge(containers::routes())
        .merge(environments::routes())
}

/// This face's part of the document that describes the server: its table, and what each route takes and answers.
pub fn document() -> Part {
    Part::new::<ErrorEnvelope>("UHP", table())
        .answers_with("UHP-Version", "the version of the protocol that the answer is in")
        .answers_with("X-Request-Id", "what the server's log calls the request")
}

/// Every route, with what a key needs for it.
pub fn table() -> Vec<Row> {
    routes().into_rows()
}

/// Every path of UHP, with the answers for paths and methods that it does not have. The whole `/v1` prefix may be given to
/// it; another router's paths have to be taken out before.
pub fn router(state: FaceState) -> Router {
    routes()
        .into_router()
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        // Each route bounds its body itself, by the engine's limits.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(state.clone(), request_id::layer))
        .with_state(state)
}

async fn unknown_route() -> Failure {
    Failure::unknown_route()
}

async fn wrong_method() -> Failure {
    Failure::wrong_method()
}
