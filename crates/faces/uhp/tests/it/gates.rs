//! The order of gates: route, method, version, credential, verb, size, syntax, shape, the object in the path, the retry
//! lookup, what the body names, state.

use axum::body::Body;
use http::{Method, Request};
use serde_json::{Value, json};
use stead_domain::key::Verb;

use crate::client::{Answer, Server};
use crate::schema::conforms;

/// A made-up id of the right form.
const HEX: &str = "018f3c2a7b4c7d3e9f6a5b4c3d2e1f00";

#[tokio::test]
async fn each_gate_comes_before_the_next() {
    let server = Server::start().await;
    let reader = server.key(&[Verb::Read]).await;
    let bare = |method: &str, path: &str, version: &str, key: Option<&str>, body: &str| {
        let mut request = Request::builder().method(method).uri(path).header("uhp-version", version);
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        request.body(Body::from(body.to_owned())).unwrap()
    };
    let (old, now) = ("1999-01-01", "2026-09-28");
    // Each request is wrong in every way that comes after the gate that refuses it.
    server.send(bare("PATCH", "/v1/nothing", old, None, "")).await.refused(404, "stead_unknown_route");
    let answer = server.send(bare("PATCH", "/v1/harnesses/x", old, None, "")).await;
    answer.refused(405, "stead_method_not_allowed");
    assert!(answer.header("allow").contains("PUT"));
    let version = server.send(bare("PUT", "/v1/harnesses/x", old, None, "")).await;
    assert_eq!(
        version.refused(400, "unsupported_protocol_version")["detail"]["supported"],
        json!([now, "2026-09-12", "2026-08-11"])
    );
    let missing = server.send(bare("PUT", "/v1/harnesses/x", now, None, "")).await;
    assert_eq!(missing.refused(401, "missing_credential")["type"], "authentication_error");
    assert_eq!(missing.header("www-authenticate"), "Bearer");
    server.send(bare("PUT", "/v1/harnesses/x", now, Some("made-up"), "")).await.refused(401, "invalid_credential");
    let verb = server.send(bare("PUT", "/v1/harnesses/x", now, Some(&reader), "")).await;
    assert_eq!(verb.refused(403, "insufficient_scope")["type"], "permission_error");
    let admin = Some(server.admin.as_str());
    let huge = "x".repeat(2 << 20);
    let size = server.send(bare("PUT", "/v1/harnesses/x", now, admin, &huge)).await;
    assert_eq!(size.refused(413, "file_too_large")["detail"]["max_bytes"], json!(1 << 20));
    server.send(bare("PUT", "/v1/harnesses/x", now, admin, "{")).await.refused(400, "invalid_input");
    let shape = server.send(bare("PUT", "/v1/harnesses/x", now, admin, r#"{"max_step":"x"}"#)).await;
    assert_eq!(shape.refused(400, "invalid_input")["param"], "max_step");
    let named = server.send(bare("PUT", "/v1/harnesses/x", now, admin, r#"{"environment":"x"}"#)).await;
    named.refused(404, "harness_not_found");

    let import = |body: &str| {
        let request = server.request(Method::POST, &format!("/v1/environments/henv_{HEX}/import"));
        server.send(request.header("content-type", "application/json").body(Body::from(body.to_owned())).unwrap())
    };
    import(r#"{"git":{}}"#).await.refused(422, "environment_invalid");
    import(r#"{"git":{"url":"https://example.com/x"}}"#).await.refused(404, "environment_not_found");

    // A task has no object in its path; the gates behind that are walked with one.
    let harness = server.get("/v1/harnesses").await.good()["harnesses"][0]["id"].clone();
    let first = task(&server, "k", json!({"input": "x", "metadata": {"harness_id": harness}})).await.good();
    let nowhere = json!([{"type": "input_file", "file_id": format!("file_{HEX}")}]);
    let unknown = json!({"harness_id": format!("chrn_{HEX}"), "environment": format!("henv_{HEX}")});
    let absent = json!({"input": nowhere, "previous_response_id": "x", "metadata": unknown});
    let mut shapeless = absent.clone();
    shapeless["timeout_seconds"] = json!(0);
    assert_eq!(task(&server, "k", shapeless).await.refused(400, "invalid_input")["param"], "timeout_seconds");
    assert_eq!(task(&server, "k", absent.clone()).await.good(), first, "a repetition looks for nothing that it names");
    assert_eq!(task(&server, "l", absent).await.status, 404);
    let unbuilt = server.environment("Demo").await;
    let state = |harness: Value| json!({"input": "x", "metadata": {"harness_id": harness, "environment": unbuilt}});
    task(&server, "l", state(json!(format!("chrn_{HEX}")))).await.refused(404, "harness_not_found");
    task(&server, "l", state(harness)).await.refused(409, "environment_not_ready");
}

async fn task(server: &Server, key: &str, body: Value) -> Answer {
    let request = server.request(Method::POST, "/v1/responses").header("idempotency-key", key);
    server.send(request.body(Body::from(body.to_string())).unwrap()).await
}

#[tokio::test]
async fn discovery_needs_no_credential_and_every_other_route_does() {
    let server = Server::start().await;
    let anonymous =
        |method: Method, path: &str| Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    conforms("Discovery", &server.send(anonymous(Method::GET, "/v1/uhp")).await.good());
    let mut old = anonymous(Method::GET, "/v1/uhp");
    old.headers_mut().insert("uhp-version", "1999-01-01".parse().unwrap());
    server.send(old).await.refused(400, "unsupported_protocol_version");
    for (method, path) in [
        ("GET", "/v1/harnesses"),
        ("POST", "/v1/harnesses"),
        ("GET", "/v1/harnesses/x"),
        ("PUT", "/v1/harnesses/x"),
        ("DELETE", "/v1/harnesses/x"),
        ("GET", "/v1/harnesses/x/models"),
        ("GET", "/v1/models"),
        ("GET", "/v1/models/shell"),
        ("POST", "/v1/responses"),
        ("GET", "/v1/responses/x"),
        ("DELETE", "/v1/responses/x"),
        ("GET", "/v1/responses/x/input_items"),
        ("POST", "/v1/responses/x/cancel"),
        ("GET", "/v1/sessions"),
        ("GET", "/v1/sessions/x"),
        ("DELETE", "/v1/sessions/x"),
        ("GET", "/v1/sessions/x/turns"),
        ("POST", "/v1/sessions/x/cancel"),
        ("GET", "/v1/sessions/x/files"),
        ("GET", "/v1/sessions/x/files/archive"),
        ("DELETE", "/v1/traces/x"),
        ("POST", "/v1/files"),
        ("GET", "/v1/containers/x/files/y/content"),
        ("GET", "/v1/containers/x/files/y/pdf"),
        ("GET", "/v1/environments"),
        ("POST", "/v1/environments"),
        ("GET", "/v1/environments/runtimes"),
        ("GET", "/v1/environments/packages/check?manager=pip&spec=x"),
        ("GET", "/v1/environments/x"),
        ("PUT", "/v1/environments/x"),
        ("DELETE", "/v1/environments/x"),
        ("GET", "/v1/environments/x/harnesses"),
        ("GET", "/v1/environments/x/files"),
        ("GET", "/v1/environments/x/files/a"),
        ("PUT", "/v1/environments/x/files/a"),
        ("DELETE", "/v1/environments/x/files/a"),
        ("PUT", "/v1/environments/x/files/"),
        ("POST", "/v1/environments/x/directories"),
        ("POST", "/v1/environments/x/import"),
        ("POST", "/v1/environments/x/build"),
        ("GET", "/v1/environments/x/builds/1"),
        ("GET", "/v1/environments/x/versions"),
        ("POST", "/v1/environments/x/versions/1/activate"),
    ] {
        let method: Method = method.parse().unwrap();
        server.send(anonymous(method, path)).await.refused(401, "missing_credential");
    }
}

#[tokio::test]
async fn objects_that_are_not_there_are_missing_by_their_own_name() {
    let server = Server::start().await;
    for (method, path, code) in [
        ("GET", format!("/v1/harnesses/chrn_{HEX}"), "harness_not_found"),
        ("GET", "/v1/harnesses/%ff".to_owned(), "harness_not_found"),
        ("DELETE", "/v1/harnesses/nonsense".to_owned(), "harness_not_found"),
        ("GET", format!("/v1/harnesses/chrn_{HEX}/models"), "harness_not_found"),
        ("GET", format!("/v1/responses/resp_{HEX}"), "response_not_found"),
        ("DELETE", "/v1/responses/resp_1".to_owned(), "response_not_found"),
        ("POST", format!("/v1/responses/resp_{HEX}/cancel"), "response_not_found"),
        ("GET", format!("/v1/responses/turn_{HEX}/input_items"), "response_not_found"),
        ("GET", format!("/v1/sessions/hsess_{HEX}"), "session_not_found"),
        ("GET", format!("/v1/sessions/hsess_{HEX}/turns"), "session_not_found"),
        ("GET", format!("/v1/sessions/hsess_{HEX}/files/archive"), "session_not_found"),
        ("POST", "/v1/sessions/x/cancel".to_owned(), "session_not_found"),
        ("DELETE", format!("/v1/traces/hsess_{HEX}"), "session_not_found"),
        ("POST", format!("/v1/sessions/hsess_{HEX}/share"), "stead_unknown_route"),
        ("GET", format!("/v1/containers/cntr_{HEX}/files/file_{HEX}/content"), "file_not_found"),
        ("GET", format!("/v1/containers/cntr_{HEX}/files/..%2f..%2fetc%2fpasswd/content"), "file_not_found"),
        ("GET", format!("/v1/containers/cntr_{HEX}/files/../../etc/passwd/content"), "stead_unknown_route"),
        ("GET", format!("/v1/containers/cntr_{HEX}/files/file_{HEX}/pdf"), "file_not_found"),
        ("GET", "/v1/models/gpt-9".to_owned(), "stead_model_not_found"),
        ("GET", format!("/v1/environments/henv_{HEX}/files"), "environment_not_found"),
        ("GET", format!("/v1/environments/henv_{HEX}/files/a"), "environment_not_found"),
        ("PUT", format!("/v1/environments/henv_{HEX}/files/a"), "environment_not_found"),
        ("POST", format!("/v1/environments/henv_{HEX}/import"), "environment_not_found"),
        ("POST", format!("/v1/environments/henv_{HEX}/build"), "environment_not_found"),
        ("GET", format!("/v1/environments/henv_{HEX}/builds/x"), "environment_not_found"),
        ("GET", format!("/v1/environments/henv_{HEX}/versions"), "environment_not_found"),
    ] {
        let answer = server.call(method.parse().unwrap(), &path, Body::empty()).await;
        answer.refused(404, code);
    }
}

#[tokio::test]
async fn a_callers_request_id_comes_back() {
    let server = Server::start().await;
    let request = server.request(Method::GET, "/v1/harnesses").header("x-request-id", "mine-1");
    let answer = server.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.header("x-request-id"), "mine-1");
    conforms("Harness", &answer.good()["harnesses"][0]);
}
