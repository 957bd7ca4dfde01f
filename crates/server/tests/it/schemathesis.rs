//! Requests that a stranger's generator makes of the document, against the real server: no fault of the server, no status, media
//! type, header or body that the document does not have.

use std::process::Command;

use serde_json::json;

use crate::api::Api;
use crate::objects::text;
use crate::program::needs_root;
use crate::server::TestServer;

/// How long it asks, in seconds.
const TIME: &str = "60";

#[test]
fn nothing_that_is_generated_from_the_document_is_answered_otherwise() {
    needs_root!();
    let Some(program) = std::env::var_os("STEAD_TEST_SCHEMATHESIS") else {
        assert!(std::env::var_os("STEAD_NO_SKIP").is_none(), "STEAD_TEST_SCHEMATHESIS names no program");
        eprintln!("skipped: STEAD_TEST_SCHEMATHESIS names no program");
        return;
    };
    // What a generator takes for a task is a command line for a shell; none may take long.
    let server = TestServer::start(&[("sessions.time_limit", "5s")]);
    let verbs = json!(["read", "run", "write", "admin", "operator"]);
    let made = Api::of(&server).post("/stead/v1/keys", &json!({"name": "generator", "verbs": verbs})).ok();
    let api = Api::with_key(&server, text(&made["secret"]));
    let scratch = tempfile::tempdir().unwrap();
    let ran = Command::new(program)
        .current_dir(scratch.path())
        .env("HOME", scratch.path())
        .args(["run", &format!("{}/stead/v1/openapi.json", server.url())])
        .args(["--header", &format!("Authorization: Bearer {}", api.key())])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"])
        .args(["--checks", "response_headers_conformance,response_schema_conformance,unsupported_method"])
        // It finds the key that it calls with in a list.
        .args(["--exclude-operation-id", "delete_stead_v1_keys_id"])
        .args(["--phases", "examples,coverage,fuzzing", "--max-time", TIME, "--workers", "2"])
        .args(["--request-timeout", "30", "--continue-on-failure", "--no-color", "--seed", "20260928"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(api.get("/v1/harnesses").status, 200, "the key was lost on the way: {said}");
    super::hostile::is_well(&server);
    Api::of(&server).delete_sessions();
}
