//! The routes. An unknown one is 404 and a wrong method 405 before anybody is authenticated: routes are public.

use axum::Router;
use axum::routing::{delete, get, post};
use http::{Method, StatusCode, Uri};

use crate::refusal::Refusal;
use crate::routes::{build_log, builds, keeping, keys, server, turns, workspaces};
use crate::state::FaceState;

/// The face, for everything beneath `/stead/v1`.
pub fn router(state: FaceState) -> Router {
    Router::new()
        .route("/stead/v1/server", get(server::get))
        .route("/stead/v1/workspaces", get(workspaces::list).post(workspaces::create))
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

async fn unknown_route(uri: Uri) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "route_not_found", "there is no such route").hint(hint(uri.path()))
}

/// Where what was looked for may be: projects, sessions and their files are objects of UHP alone.
fn hint(path: &str) -> &'static str {
    let beneath = path.strip_prefix("/stead/v1/").map(|rest| rest.split('/').next().unwrap_or_default());
    match beneath {
        Some("projects" | "environments") => {
            "projects are listed, made and read over UHP, as environments: `/v1/environments`; builds, their logs and versions \
             are beneath `/stead/v1/projects/{id}/`"
        }
        Some("sessions" | "responses" | "harnesses") => {
            "sessions, tasks and harnesses are served over UHP, beneath `/v1/`"
        }
        Some(_) => {
            "`/stead/v1` serves workspaces, keys, builds, turns, usage and collection; everything else is UHP, beneath `/v1/`"
        }
        None => "the routes of this interface begin with `/stead/v1/`; UHP is served at `/v1/`",
    }
}

async fn wrong_method(method: Method, _: Uri) -> Refusal {
    let message = format!("this route does not answer `{method}`; the `Allow` header names what it answers");
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_where_the_object_is() {
        for (path, part) in [
            ("/stead/v1/projects", "`/v1/environments`"),
            ("/stead/v1/sessions/x", "beneath `/v1/`"),
            ("/stead/v1/nothing", "serves workspaces, keys"),
            ("/stead/v2", "begin with"),
        ] {
            assert!(hint(path).contains(part), "{path}: {}", hint(path));
        }
    }
}
