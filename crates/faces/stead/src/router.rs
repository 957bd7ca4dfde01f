//! The routes. An unknown one is 404 and a wrong method 405 before anybody is authenticated: routes are public.

use axum::Router;
use axum::routing::{delete, get, post};
use http::{Method, StatusCode, Uri};

use crate::refusal::Refusal;
use crate::routes::{build_log, builds, keeping, keys, server, turns};
use crate::state::FaceState;

/// The face, for everything beneath `/stead/v1`.
pub fn router(state: FaceState) -> Router {
    Router::new()
        .route("/stead/v1/server", get(server::get))
        .route("/stead/v1/keys", get(keys::list).post(keys::create))
        .route("/stead/v1/keys/{id}", delete(keys::revoke))
        .route("/stead/v1/projects/{project}/build", post(builds::start))
        .route("/stead/v1/projects/{project}/builds/{number}", get(builds::get))
        .route("/stead/v1/projects/{project}/builds/{number}/log", get(build_log::log))
        .route("/stead/v1/projects/{project}/builds/{number}/cancel", post(builds::cancel))
        .route("/stead/v1/projects/{project}/versions/{number}", delete(builds::remove_version))
        .route("/stead/v1/collect", post(keeping::collect))
        .route("/stead/v1/usage", get(keeping::usage))
        .route("/stead/v1/turns/{turn}", get(turns::get))
        .route("/stead/v1/turns/{turn}/output", get(turns::output))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(state)
}

async fn unknown_route() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "route_not_found", "there is no such route")
        .hint("the routes of this interface begin with `/stead/v1/`; UHP is served at `/v1/`")
}

async fn wrong_method(method: Method, _: Uri) -> Refusal {
    let message = format!("this route does not answer `{method}`; the `Allow` header names what it answers");
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
