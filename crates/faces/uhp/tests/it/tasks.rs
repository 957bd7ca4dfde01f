//! Tasks, harnesses, sessions and uploads through the router. Nothing runs on this server, so every task that is admitted
//! fails for want of an environment; what it says about that is what a client reads.

use axum::body::Body;
use http::Method;
use serde_json::{Value, json};

use crate::client::{Answer, Server};
use crate::schema::conforms;

async fn harness(server: &Server) -> String {
    let body = server.get("/v1/harnesses").await.good();
    body["harnesses"][0]["id"].as_str().unwrap().to_owned()
}

fn events(answer: &Answer) -> Vec<Value> {
    let lines = answer.text();
    lines
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[tokio::test]
async fn a_task_is_answered_whole_at_once_or_as_a_stream() {
    let server = Server::start().await;
    let id = harness(&server).await;
    let task = |more: Value| {
        let mut body = json!({"input": "echo hi", "metadata": {"harness_id": id}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let blocking =
        server.post("/v1/responses", task(json!({"tools": [], "include": [], "model": "gpt-9"}))).await.good();
    let blocking = conforms("Response", &blocking);
    assert_eq!((&blocking["status"], &blocking["error"]["code"]), (&json!("failed"), &json!("harness_error")));
    assert_eq!(blocking["metadata"]["ignored_fields"], json!(["include", "tools"]));
    assert_eq!(blocking["metadata"]["requested_model"], json!("gpt-9"));
    let path = format!("/v1/responses/{}", blocking["id"].as_str().unwrap());
    assert_eq!(server.get(&path).await.good(), blocking);
    let items = server.get(&format!("{path}/input_items")).await.good();
    assert_eq!(items["data"][0]["content"][0]["text"], json!("echo hi"));
    assert_eq!(server.post(&format!("{path}/cancel"), json!({})).await.good()["status"], json!("failed"));

    let more = json!({"stream": true, "previous_response_id": blocking["id"]});
    let stream = server.post("/v1/responses", task(more)).await;
    assert_eq!((stream.header("content-type"), stream.header("cache-control")), ("text/event-stream", "no-cache"));
    let events = events(&stream);
    for (number, event) in events.iter().enumerate() {
        assert_eq!(conforms("Event", event)["sequence_number"], json!(number));
    }
    let last = &events.last().unwrap();
    assert_eq!((&events[0]["type"], &last["type"]), (&json!("response.created"), &json!("response.failed")));
    assert_eq!(last["response"]["previous_response_id"], blocking["id"]);
    assert_eq!(last["response"]["metadata"]["session_id"], blocking["metadata"]["session_id"]);

    let session = blocking["metadata"]["session_id"].as_str().unwrap();
    let turns = server.get(&format!("/v1/sessions/{session}/turns")).await.good();
    assert_eq!(turns["turns"].as_array().unwrap().len(), 2);
    conforms("TurnItem", &turns["turns"][0]);
    conforms("Session", &server.get(&format!("/v1/sessions/{session}")).await.good());
    assert_eq!(server.get(&format!("/v1/sessions/{session}/files")).await.good(), json!({"files": []}));
    let archive = server.get(&format!("/v1/sessions/{session}/files/archive")).await;
    assert_eq!((archive.header("content-type"), &archive.bytes[..2]), ("application/zip", &b"PK"[..]));

    let background = server.post("/v1/responses", task(json!({"background": true}))).await.good();
    assert_eq!(conforms("Response", &background)["status"], json!("in_progress"));
    let page = conforms("SessionList", &server.get("/v1/sessions?limit=1").await.good());
    let cursor = page["next_cursor"].as_str().unwrap();
    assert!(server.get(&format!("/v1/sessions?limit=1&cursor={cursor}")).await.good()["next_cursor"].is_null());
    server.get("/v1/sessions?limit=0").await.refused(400, "invalid_input");
    assert_eq!(server.delete(&path).await.good(), json!({"id": blocking["id"], "deleted": true}));
    server.get(&path).await.refused(404, "response_not_found");
    server.delete(&format!("/v1/traces/{session}")).await.good();
    server.get(&format!("/v1/sessions/{session}")).await.refused(404, "session_not_found");
}

#[tokio::test]
async fn the_same_key_gives_the_first_result() {
    let server = Server::start().await;
    let id = harness(&server).await;
    let send = |key: String, text: &'static str| {
        let body = json!({"input": text, "metadata": {"harness_id": id}}).to_string();
        let request = server.request(Method::POST, "/v1/responses").header("idempotency-key", key);
        server.send(request.body(Body::from(body)).unwrap())
    };
    let first = send("k".into(), "one").await.good();
    assert_eq!(send("k".into(), "two").await.good(), first);
    assert_ne!(send("l".into(), "one").await.good()["id"], first["id"]);
    send("k".repeat(256), "one").await.refused(400, "invalid_input");
}

#[tokio::test]
async fn tasks_that_cannot_start_are_refused_as_requests() {
    let server = Server::start().await;
    let id = harness(&server).await;
    let environment = server.environment("Demo").await;
    let other = server.post("/v1/harnesses", json!({"base": "shell", "name": "other"})).await.good();
    let first = server.post("/v1/responses", json!({"input": "a", "metadata": {"harness_id": id}})).await.good();
    let hex = "018f3c2a7b4c7d3e9f6a5b4c3d2e1f00";
    for (body, status, code) in [
        (json!({"input": "a"}), 422, "model_unavailable"),
        (json!({"metadata": {"harness_id": id}}), 400, "invalid_input"),
        (json!({"input": "", "metadata": {"harness_id": id}}), 400, "invalid_input"),
        (json!({"input": "a", "metadata": {"harness_id": 3}}), 400, "invalid_input"),
        (json!({"input": "a", "metadata": {"harness_id": format!("chrn_{hex}")}}), 404, "harness_not_found"),
        (json!({"input": "a", "previous_response_id": format!("resp_{hex}")}), 404, "response_not_found"),
        (
            json!({"input": "a", "previous_response_id": first["id"], "metadata": {"harness_id": other["id"]}}),
            409,
            "harness_mismatch",
        ),
        (
            json!({"input": "a", "environment": format!("henv_{hex}"), "metadata": {"harness_id": id}}),
            404,
            "environment_not_found",
        ),
        (
            json!({"input": "a", "metadata": {"harness_id": id, "environment": environment}}),
            409,
            "environment_not_ready",
        ),
        (
            json!({"input": [{"type": "input_file", "file_id": format!("file_{hex}")}], "metadata": {"harness_id": id}}),
            404,
            "file_not_found",
        ),
        (
            json!({"input": [{"type": "input_file", "file_data": format!("data:,{}", "x".repeat(2000))}], "metadata": {"harness_id": id}}),
            413,
            "file_too_large",
        ),
        (json!({"input": "x".repeat(20_000), "metadata": {"harness_id": id}}), 413, "file_too_large"),
    ] {
        server.post("/v1/responses", body).await.refused(status, code);
    }
}

#[tokio::test]
async fn harnesses_are_made_changed_and_deleted() {
    let server = Server::start().await;
    let environment = server.environment("Demo").await;
    let made =
        server.post("/v1/harnesses", json!({"base": "shell", "name": "a", "environment": environment})).await.good();
    assert_eq!(conforms("Harness", &made)["environment"], json!(environment));
    let path = format!("/v1/harnesses/{}", made["id"].as_str().unwrap());
    let mut sent = made.clone();
    sent["name"] = json!("b");
    let renamed = server.put(&path, sent).await.good();
    assert_eq!((&renamed["name"], &renamed["environment"]), (&json!("b"), &json!(environment)));
    let listed = server.get(&format!("/v1/environments/{environment}/harnesses")).await.good();
    assert_eq!(listed["harnesses"], json!([{"id": made["id"], "name": "b", "base": "shell"}]));
    conforms("HarnessModels", &server.get(&format!("{path}/models")).await.good());
    conforms("ModelCatalog", &server.get("/v1/models").await.good());

    let refused = server.post("/v1/harnesses", json!({"base": "nonsense"})).await.refused(422, "unsupported_base");
    assert_eq!(refused["detail"]["supported"], json!(["shell"]));
    server.post("/v1/harnesses", json!({})).await.refused(400, "invalid_input");
    server.put(&path, json!({"base": "codex"})).await.refused(422, "unsupported_base");
    let refused = server.put(&path, json!({"skills": [{"name": "s", "content": "c"}]})).await;
    assert_eq!(refused.refused(422, "stead_unsupported")["param"], json!("skills"));
    let nowhere = json!({"environment": "henv_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00"});
    server.put(&path, nowhere).await.refused(404, "environment_not_found");
    assert_eq!(server.get(&path).await.good(), renamed);
    assert_eq!(server.delete(&path).await.good(), json!({"id": made["id"], "deleted": true}));
    server.get(&path).await.refused(404, "harness_not_found");
}

fn multipart(parts: &[(&str, Option<&str>, &str)]) -> String {
    let part = |(name, filename, content): &(&str, Option<&str>, &str)| {
        let filename = filename.map(|name| format!("; filename=\"{name}\"")).unwrap_or_default();
        format!("--edge\r\ncontent-disposition: form-data; name=\"{name}\"{filename}\r\n\r\n{content}\r\n")
    };
    let body: String = parts.iter().map(part).collect();
    body + "--edge--\r\n"
}

#[tokio::test]
async fn uploads_stream_in_and_have_two_spellings() {
    let server = Server::start().await;
    let send = |body: String, version: Option<&'static str>| {
        let mut request =
            server.request(Method::POST, "/v1/files").header("content-type", "multipart/form-data; boundary=edge");
        if let Some(version) = version {
            request = request.header("uhp-version", version);
        }
        server.send(request.body(Body::from(body)).unwrap())
    };
    let body = multipart(&[("other", None, "x"), ("file", Some("a.txt"), "hello"), ("purpose", None, "assistants")]);
    let file = send(body.clone(), Some("2026-09-28")).await.good();
    let file = conforms("File", &file);
    assert_eq!(
        (&file["bytes"], &file["filename"], &file["purpose"]),
        (&json!(5), &json!("a.txt"), &json!("assistants"))
    );
    assert!(file["id"].as_str().unwrap().starts_with("file_"));
    let hyphen = send(body, None).await.good();
    assert!(hyphen["id"].as_str().unwrap().starts_with("file-"));

    let id = harness(&server).await;
    let parts = json!([{"type": "input_text", "text": "cat a.txt"}, {"type": "input_file", "file_id": hyphen["id"]}]);
    let task = json!({"input": [{"role": "user", "content": parts}], "metadata": {"harness_id": id}});
    conforms("Response", &server.post("/v1/responses", task).await.good());

    let twice = multipart(&[("file", Some("a"), "1"), ("file", Some("b"), "2")]);
    assert_eq!(send(twice, None).await.refused(400, "invalid_input")["param"], json!("file"));
    send(multipart(&[("purpose", None, "x")]), None).await.refused(400, "invalid_input");
    let large = multipart(&[("file", Some("a"), &"x".repeat(1001))]);
    assert_eq!(send(large, None).await.refused(413, "file_too_large")["detail"]["max_bytes"], json!(1000));
    server.post("/v1/files", json!({})).await.refused(400, "invalid_input");
}
