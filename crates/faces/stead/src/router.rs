//! The routes. An unknown one is 404 and a wrong method 405 before anybody is authenticated: routes are public.

use axum::{Router, middleware};
use http::{Method, StatusCode, Uri};
use stead_face_frame::{Operation, Parameter, Part, Row};

use crate::refusal::Refusal;
use crate::request;
use crate::routes::{audit, build_log, builds, keeping, keys, output, server, turns, workspaces};
use crate::state::FaceState;
use crate::wire;

/// Routes of this face.
type Routes = stead_face_frame::Routes<FaceState>;

/// The latest moment that parameters can name, in seconds since 1970.
const LATEST: u64 = 253_402_300_799;

/// Routes about the deployment and its workspaces.
fn deployment() -> Routes {
    let of_workspace = || Parameter::query("workspace", "another workspace than the key's own, by id or name");
    Routes::new()
        .get("/stead/v1/server", server::get, Operation::new("What this server is").answers::<wire::Server>())
        .get(
            "/stead/v1/openapi.json",
            server::openapi,
            Operation::new("This document").answers_bytes("application/json"),
        )
        .get(
            "/stead/v1/workspaces",
            workspaces::list,
            Operation::new("The own workspace; every one for an operator").answers::<wire::WorkspaceList>(),
        )
        .post(
            "/stead/v1/workspaces",
            workspaces::create,
            Operation::new("Make a workspace")
                .takes::<wire::WorkspaceCreate>()
                .answers::<wire::Workspace>()
                .refuses(&[409, 415]),
        )
        .get(
            "/stead/v1/keys",
            keys::list,
            Operation::new("Every key of a workspace").with(of_workspace()).answers::<wire::KeyList>().refuses(&[404]),
        )
        .post(
            "/stead/v1/keys",
            keys::create,
            Operation::new("Make a key")
                .takes::<wire::KeyCreate>()
                .answers::<wire::KeyCreated>()
                .refuses(&[404, 409, 415]),
        )
        .delete(
            "/stead/v1/keys/{id}",
            keys::revoke,
            Operation::new("Revoke a key").with(of_workspace()).answers::<wire::Key>().refuses(&[404, 409]),
        )
        .post(
            "/stead/v1/collect",
            keeping::collect,
            Operation::new("Remove what nothing names").answers::<wire::Collected>().refuses(&[409]),
        )
        .get(
            "/stead/v1/audit",
            audit::list,
            Operation::new("Who did what, newest first")
                .with(Parameter::query("workspace", "one workspace, by id or name, where the key sees several"))
                .with(Parameter::query("limit", "how many entries").number(1, 1000))
                .with(Parameter::query("cursor", "the `next_cursor` of the page before"))
                .with(Parameter::query("key", "only what one key did, by id or name"))
                .with(Parameter::query("action", "only routes with this in their method or path"))
                .with(Parameter::query("target", "only what concerns this thing, by any of its ids"))
                .with(Parameter::query("request_id", "only what one request did"))
                .with(Parameter::query("since", "only from this moment on, in seconds since 1970").number(0, LATEST))
                .with(Parameter::query("until", "only before this moment, in seconds since 1970").number(0, LATEST))
                .answers::<wire::AuditList>()
                .refuses(&[404]),
        )
        .get("/stead/v1/usage", keeping::usage, Operation::new("What the workspace keeps").answers::<wire::Usage>())
}

/// Routes about builds and turns.
fn work() -> Routes {
    let from = || Parameter::query("from", "the offset to begin at, in bytes").number(0, u64::MAX);
    Routes::new()
        .post(
            "/stead/v1/projects/{project}/build",
            builds::start,
            Operation::new("Build a version")
                .with(Parameter::query("fresh", "whether everything is installed anew").flag())
                .answers::<wire::Build>()
                .refuses(&[404, 409, 422, 429]),
        )
        .get(
            "/stead/v1/projects/{project}/builds/{number}",
            builds::get,
            Operation::new("A build").answers::<wire::Build>().refuses(&[404]),
        )
        .get(
            "/stead/v1/projects/{project}/builds/{number}/log",
            build_log::log,
            Operation::new("The log of a build as it grows")
                .with(from())
                .with(Parameter::header("Last-Event-ID", "the id of the last event seen; the stream goes on behind it"))
                .answers_bytes("text/plain")
                .answers_bytes("text/event-stream")
                .refuses(&[404, 429]),
        )
        .post(
            "/stead/v1/projects/{project}/builds/{number}/cancel",
            builds::cancel,
            Operation::new("Cancel a build").answers::<wire::Build>().refuses(&[404, 409]),
        )
        .delete(
            "/stead/v1/projects/{project}/versions/{number}",
            builds::remove_version,
            Operation::new("Give up the files of a version").answers::<wire::Build>().refuses(&[404, 409]),
        )
        .get(
            "/stead/v1/turns/{turn}",
            turns::get,
            Operation::new("What became of a task").answers::<wire::Turn>().refuses(&[404]),
        )
        .get(
            "/stead/v1/turns/{turn}/output",
            output::get,
            Operation::new("The raw output of a task as it comes: a JSON object per line, or frames of bytes")
                .with(from())
                .answers_as::<wire::OutputLine>(wire::OUTPUT_LINES)
                .answers_bytes(wire::OUTPUT_FRAMES)
                .refuses(&[404, 429]),
        )
}

fn routes() -> Routes {
    deployment().merge(work())
}

/// This face's part of the document that describes the server: its table, and what each route takes and answers.
pub fn document() -> Part {
    Part::new::<wire::ErrorEnvelope>("Stead", table())
        .answers_with("X-Request-Id", "what the server's log calls the request")
}

/// Every route, with what a key needs for it.
pub fn table() -> Vec<Row> {
    routes().into_rows()
}

/// The face, for everything beneath `/stead/v1`.
pub fn router(state: FaceState) -> Router {
    routes()
        .into_router()
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn(request::layer))
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
            "`/stead/v1` serves workspaces, keys, builds, turns, usage, collection and the audit log; everything else is UHP, beneath `/v1/`"
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
