//! The whole job on PostgreSQL.

use serde_json::json;

use crate::api::Api;
use crate::objects::{leaves_nothing, said, text, wait_for_file};
use crate::program::needs_root;
use crate::server::TestServer;

#[test]
fn the_whole_job_on_postgresql() {
    needs_root!();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let Some(database) = runtime.block_on(stead_testkit::database::postgres()) else { return };
    let mut server = TestServer::start(&[("database.url", &database.url_text()), ("sessions.network", "disabled")]);
    assert!(!server.data().join("stead.db").exists());
    let api = Api::of(&server);
    let harness = api.harness();
    let project =
        api.environment("on-postgres", &[("a.txt", "from a project\n"), ("setup.sh", "echo made > made.txt\n")]);
    let built = api.build(&project);
    assert_eq!(built["version"], 1);
    let task = json!({
        "input": "cat /env/on-postgres/*.txt | tee out.txt", "metadata": {"harness_id": harness, "environment": project},
    });
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "once")];
    let run = |api: &Api| api.send("POST", "/v1/responses", &headers, task.to_string().as_bytes()).ok();
    let first = run(&api);
    assert_eq!(said(&first), "from a project\nmade\n", "{first}");
    let begun = api
        .ask(&json!({"input": "touch begun; sleep 300", "background": true, "previous_response_id": first["id"]}))
        .ok();
    wait_for_file(&server, "begun");
    server.kill();
    server.start_again();
    let api = Api::of(&server);
    assert!(text(&api.ended(&begun)["error"]["message"]).starts_with("interrupted"));
    assert_eq!(run(&api)["id"], first["id"]);
    let session = text(&first["metadata"]["session_id"]);
    let files = api.get(&format!("/v1/sessions/{session}/files")).ok();
    let url = text(&files["files"][0]["download_url"]);
    assert_eq!(api.get(&format!("/{}", url.trim_start_matches('/'))).body, b"from a project\nmade\n");
    assert_eq!(said(&api.go_on(&begun, "cat out.txt")), "from a project\nmade\n");
    api.put(&project, "a.txt", "edited\n");
    assert_eq!(api.build(&project)["version"], 2);
    api.delete(&format!("/v1/environments/{project}")).ok();
    leaves_nothing(&server, &api);
}
