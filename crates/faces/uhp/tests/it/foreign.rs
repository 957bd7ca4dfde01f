//! What belongs to another workspace is not there: on every route and in every field, foreign and made-up are one answer.

use axum::body::Body;
use http::{Method, Request};
use serde_json::{Value, json};

use crate::client::{Answer, Server};

const HEX: &str = "018f3c2a7b4c7d3e9f6a5b4c3d2e1f00";

async fn call(server: &Server, key: &str, method: &str, path: &str, body: &str) -> Answer {
    let request = Request::builder().method(method).uri(path).header("authorization", format!("Bearer {key}"));
    server.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

fn made_up(id: &str) -> String {
    format!("{}_{HEX}", id.split_once('_').unwrap().0)
}

/// What a workspace has: the ids of an environment, a harness, a response, its session and its container.
struct Theirs([String; 5]);

impl Theirs {
    async fn made(server: &Server) -> Self {
        let environment = server.environment("Demo").await;
        server.call(Method::PUT, &format!("/v1/environments/{environment}/files/a.txt"), "theirs").await.good();
        let harness = server.post("/v1/harnesses", json!({"base": "shell", "name": "theirs"})).await.good();
        let task = json!({"input": "x", "metadata": {"harness_id": harness["id"]}});
        let response = server.post("/v1/responses", task).await.good();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let metadata = &response["metadata"];
        let (session, container) = (text(&metadata["session_id"]), text(&metadata["container_id"]));
        Self([environment, text(&harness["id"]), text(&response["id"]), session, container])
    }

    async fn state(&self, server: &Server) -> Vec<Value> {
        let Self([environment, harness, response, session, _]) = self;
        let mut state = Vec::new();
        for path in [
            format!("/v1/environments/{environment}"),
            format!("/v1/environments/{environment}/files"),
            format!("/v1/harnesses/{harness}"),
            format!("/v1/responses/{response}"),
            format!("/v1/sessions/{session}"),
            format!("/v1/sessions/{session}/turns"),
        ] {
            state.push(server.get(&path).await.good());
        }
        state
    }
}

#[tokio::test]
async fn a_foreign_object_is_a_made_up_one_on_every_route() {
    let server = Server::start().await;
    let theirs = Theirs::made(&server).await;
    let before = theirs.state(&server).await;
    let stranger = server.stranger().await;
    let [environment, harness, response, session, container] = &theirs.0;
    for (method, id, tail, body) in [
        ("GET", environment, "", ""),
        ("PUT", environment, "", r#"{"name":"mine"}"#),
        ("DELETE", environment, "", ""),
        ("GET", environment, "/harnesses", ""),
        ("GET", environment, "/files", ""),
        ("GET", environment, "/files/a.txt", ""),
        ("PUT", environment, "/files/a.txt", "mine"),
        ("DELETE", environment, "/files/a.txt", ""),
        ("POST", environment, "/directories", r#"{"path":"d"}"#),
        ("POST", environment, "/import?replace=1", "no archive"),
        ("POST", environment, "/build", ""),
        ("GET", environment, "/builds/1", ""),
        ("GET", environment, "/versions", ""),
        ("POST", environment, "/versions/1/activate", ""),
        ("GET", harness, "", ""),
        ("PUT", harness, "", r#"{"name":"mine"}"#),
        ("DELETE", harness, "", ""),
        ("GET", harness, "/models", ""),
        ("GET", response, "", ""),
        ("GET", response, "/input_items", ""),
        ("POST", response, "/cancel", ""),
        ("DELETE", response, "", ""),
        ("GET", session, "", ""),
        ("GET", session, "/turns", ""),
        ("GET", session, "/files", ""),
        ("GET", session, "/files/archive", ""),
        ("POST", session, "/cancel", ""),
        ("DELETE", session, "", ""),
        ("GET", container, "/files/file_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00/content", ""),
    ] {
        let collection = match id.split_once('_').unwrap().0 {
            "henv" => "environments",
            "chrn" => "harnesses",
            "resp" => "responses",
            "hsess" => "sessions",
            _ => "containers",
        };
        let path = |id: &str| format!("/v1/{collection}/{id}{tail}");
        let foreign = call(&server, &stranger, method, &path(id), body).await;
        let absent = call(&server, &stranger, method, &path(&made_up(id)), body).await;
        assert_eq!(foreign.status, 404, "{method} {}: {}", path(id), foreign.text());
        assert_eq!((foreign.status, foreign.json()), (absent.status, absent.json()), "{method} {}", path(id));
        let wrong = call(&server, &stranger, method, &path("nothing"), body).await;
        assert_eq!((foreign.status, foreign.json()), (wrong.status, wrong.json()), "{method} {}", path("nothing"));
    }
    assert_eq!(theirs.state(&server).await, before);
}

#[tokio::test]
async fn a_foreign_object_cannot_be_named() {
    let server = Server::start().await;
    let theirs = Theirs::made(&server).await;
    let stranger = server.stranger().await;
    let [environment, harness, response, _, _] = &theirs.0;
    let upload = "--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--edge--\r\n";
    let request =
        server.request(Method::POST, "/v1/files").header("content-type", "multipart/form-data; boundary=edge");
    let file = server.send(request.body(Body::from(upload)).unwrap()).await.good()["id"].as_str().unwrap().to_owned();
    let file = file.replace('-', "_");

    // Nothing of the other workspace is listed, and its places are free.
    for (path, list) in [("environments", "environments"), ("harnesses", "harnesses"), ("sessions", "sessions")] {
        assert_eq!(call(&server, &stranger, "GET", &format!("/v1/{path}"), "").await.good()[list], json!([]), "{path}");
    }
    let mine = call(&server, &stranger, "POST", "/v1/environments", r#"{"name":"Demo"}"#).await.good();
    assert_eq!(mine["mount"], "/env/demo");
    let mine = call(&server, &stranger, "POST", "/v1/harnesses", r#"{"base":"shell"}"#).await.good()["id"].clone();

    let named = |id: &str, body: &dyn Fn(&str) -> Value| [body(id).to_string(), body(&made_up(id)).to_string()];
    let task = |more: Value| {
        let mut body = json!({"input": "x", "metadata": {"harness_id": mine}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (path, pair, code) in [
        (
            "/v1/harnesses",
            named(environment, &|id| json!({"base": "shell", "environment": id})),
            "environment_not_found",
        ),
        ("/v1/responses", named(environment, &|id| task(json!({"environment": id}))), "environment_not_found"),
        ("/v1/responses", named(response, &|id| task(json!({"previous_response_id": id}))), "response_not_found"),
        (
            "/v1/responses",
            named(harness, &|id| json!({"input": "x", "metadata": {"harness_id": id}})),
            "harness_not_found",
        ),
        (
            "/v1/responses",
            named(&file, &|id| task(json!({"input": [{"type": "input_file", "file_id": id}]}))),
            "file_not_found",
        ),
    ] {
        let [foreign, absent] = &pair;
        let foreign = call(&server, &stranger, "POST", path, foreign).await;
        foreign.refused(404, code);
        assert_eq!(foreign.json(), call(&server, &stranger, "POST", path, absent).await.json(), "{path} {code}");
    }

    // A retry key means something in its own workspace alone.
    let keyed = |key: String, harness: Value| {
        let request = Request::builder().method(Method::POST).uri("/v1/responses").header("idempotency-key", "k");
        let body = json!({"input": "x", "metadata": {"harness_id": harness}}).to_string();
        server.send(request.header("authorization", format!("Bearer {key}")).body(Body::from(body)).unwrap())
    };
    let first = keyed(server.admin.clone(), json!(harness)).await.good();
    assert_ne!(keyed(stranger, mine.clone()).await.good()["id"], first["id"]);
}
