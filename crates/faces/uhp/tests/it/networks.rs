//! Networks of harnesses, tasks and environments: a narrower place says less, never more, and is read back as it was said.

use http::StatusCode;
use serde_json::{Value, json};
use stead_domain::network::NetworkPolicy;

use crate::client::Server;
use crate::schema::conforms;

fn restricted(hosts: &[&str]) -> Value {
    json!({ "mode": "restricted", "hosts": hosts })
}

async fn harness(server: &Server, network: &Value) -> String {
    let body = json!({ "base": "shell", "name": "x", "stead_network": network });
    let made = server.post("/v1/harnesses", body).await.good();
    conforms("Harness", &made);
    assert_eq!(made["stead_network"], *network);
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_task_reaches_what_its_harness_and_the_deployment_allow() {
    let (one, two, other) =
        (restricted(&["a.example"]), restricted(&["a.example", "b.example"]), restricted(&["c.example"]));
    let (enabled, disabled) = (json!("enabled"), json!("disabled"));
    // Of each deployment and harness: what a task may ask for, and what it gets when it says nothing.
    for (deployment, of_harness, allowed, refused, usual) in [
        ("enabled", &Value::Null, vec![&enabled, &two, &disabled], vec![], &enabled),
        ("enabled", &two, vec![&two, &one, &disabled], vec![&enabled, &other], &two),
        ("enabled", &disabled, vec![&disabled], vec![&enabled, &one], &disabled),
        ("restricted a.example b.example", &Value::Null, vec![&two, &one, &disabled], vec![&enabled, &other], &two),
        ("restricted a.example b.example", &one, vec![&one, &disabled], vec![&two, &enabled], &one),
        ("disabled", &Value::Null, vec![&disabled], vec![&enabled, &one], &disabled),
    ] {
        let server = Server::with(|settings| settings.session_network = deployment.parse().unwrap()).await;
        let harness = harness(&server, of_harness).await;
        let task = async |network: &Value| {
            let metadata = json!({ "harness_id": harness, "stead_network": network });
            server.post("/v1/responses", json!({ "input": "true", "metadata": metadata, "background": true })).await
        };
        for network in allowed {
            let body = conforms("Response", &task(network).await.good());
            assert_eq!(body["metadata"]["stead_network"], *network, "{deployment} {of_harness}");
        }
        for network in refused {
            let error = task(network).await.refused(400, "invalid_input");
            assert_eq!(error["param"], "metadata.stead_network", "{deployment} {of_harness} {network}");
            assert!(!error["message"].as_str().unwrap().contains("agent"), "{error}");
        }
        let body = task(&Value::Null).await.good();
        assert_eq!(body["metadata"]["stead_network"], *usual, "{deployment} {of_harness}");
        let malformed = task(&json!({ "mode": "restricted" })).await.refused(400, "invalid_input");
        assert_eq!(malformed["param"], "metadata.stead_network");
    }
}

#[tokio::test]
async fn a_harness_goes_no_further_than_the_deployment() {
    let deployment: NetworkPolicy = "restricted a.example b.example".parse().unwrap();
    let server = Server::with(|settings| settings.session_network = deployment.clone()).await;
    let id = harness(&server, &restricted(&["b.example"])).await;
    let path = format!("/v1/harnesses/{id}");
    for wrong in [json!("enabled"), restricted(&["c.example"]), json!("restricted"), json!(7)] {
        let error = server.put(&path, json!({ "stead_network": wrong })).await.refused(400, "invalid_input");
        assert_eq!(error["param"], "stead_network", "{wrong}");
        let error = server.post("/v1/harnesses", json!({ "base": "shell", "stead_network": wrong })).await;
        assert_eq!(error.refused(400, "invalid_input")["param"], "stead_network", "{wrong}");
    }
    // What is not said stays, what is null goes back to the deployment's own.
    let kept = server.put(&path, json!({ "name": "y" })).await.good();
    assert_eq!(kept["stead_network"], restricted(&["b.example"]));
    let cleared = server.put(&path, json!({ "stead_network": null })).await.good();
    assert_eq!(cleared["stead_network"], Value::Null);
    let read = conforms("Harness", &server.get(&path).await.good());
    assert_eq!(server.put(&path, read.clone()).await.good(), read, "what is read can be written back");
}

#[tokio::test]
async fn an_environment_says_what_its_builds_reach_within_what_the_operator_lets_it_choose() {
    let server = Server::with(|settings| settings.build_network_limit = "restricted a.example".parse().unwrap()).await;
    let made = server.post("/v1/environments", json!({ "name": "One" })).await.good();
    assert_eq!(made["stead_build_network"], Value::Null);
    let path = format!("/v1/environments/{}", made["id"].as_str().unwrap());
    for network in [restricted(&["a.example"]), json!("registries"), json!("disabled"), Value::Null] {
        let answer = server.put(&path, json!({ "name": "One", "stead_build_network": network })).await.good();
        assert_eq!(conforms("Environment", &answer)["stead_build_network"], network);
        let kept = server.put(&path, json!({ "name": "One" })).await.good();
        assert_eq!(kept["stead_build_network"], network);
    }
    for wrong in [json!("enabled"), restricted(&["b.example"]), json!("open"), json!({})] {
        for answer in [
            server.put(&path, json!({ "name": "One", "stead_build_network": wrong })).await,
            server.post("/v1/environments", json!({ "name": "Two", "stead_build_network": wrong })).await,
        ] {
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}");
            assert_eq!(answer.json()["error"]["param"], "stead_build_network", "{wrong}");
        }
    }
    let made = server.post("/v1/environments", json!({ "name": "Two", "stead_build_network": "disabled" })).await;
    assert_eq!(made.good()["stead_build_network"], "disabled");
}
