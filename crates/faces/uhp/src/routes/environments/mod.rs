//! The environments chapter (UHP Environments §2 to §5).

mod builds;
mod files;
mod import;
mod object;
mod packages;
mod tree;
mod versions;

use axum::Router;
use axum::routing::{get, post};

use super::{Answer, json};
use crate::state::FaceState;

pub(super) fn routes() -> Router<FaceState> {
    Router::new()
        .route("/v1/environments", get(object::list).post(object::create))
        .route("/v1/environments/runtimes", get(packages::runtimes))
        .route("/v1/environments/packages/check", get(packages::check))
        .route("/v1/environments/{environment_id}", get(object::show).put(object::update).delete(object::delete))
        .route("/v1/environments/{environment_id}/harnesses", get(object::harnesses))
        .route("/v1/environments/{environment_id}/files", get(tree::tree))
        // The empty path and every other one: the domain says which of them name a file.
        .route(
            "/v1/environments/{environment_id}/files/",
            get(files::read).put(files::write).patch(files::change).delete(files::remove),
        )
        .route(
            "/v1/environments/{environment_id}/files/{*path}",
            get(files::read).put(files::write).patch(files::change).delete(files::remove),
        )
        .route("/v1/environments/{environment_id}/directories", post(files::directory))
        .route("/v1/environments/{environment_id}/import", post(import::import))
        .route("/v1/environments/{environment_id}/build", post(builds::start))
        .route("/v1/environments/{environment_id}/builds/{version}", get(builds::show))
        .route("/v1/environments/{environment_id}/versions", get(versions::list))
        .route("/v1/environments/{environment_id}/versions/{version}/activate", post(versions::activate))
}
