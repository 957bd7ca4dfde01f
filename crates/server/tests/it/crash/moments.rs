//! The process stopped at every moment that matters: what was recorded is carried out once, what was given to a harness is never
//! given again, and nothing is left on the machine that the next process does not own.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{Api, Framing};
use crate::objects::{
    belongings, commands, eventually, leaves_nothing, names, processes, said, text, unfinished_builds,
};
use crate::program::needs_root;
use crate::server::TestServer;

/// Leaves a mark in the working directory and says how many there are.
const MARK: &str = "echo mark >> marks; wc -l < marks";
/// Says how many marks there are.
const COUNT: &str = "wc -l < marks";

/// Starts the server again so that it dies at `moment`.
fn arm(server: &mut TestServer, moment: &str) -> Api {
    server.terminate();
    server.set("STEAD_CRASH_AT", moment);
    server.start_again();
    Api::of(server)
}

/// Waits for the death and starts the server again.
fn revive(server: &mut TestServer) -> Api {
    server.wait_for_death();
    server.set("STEAD_CRASH_AT", "");
    server.start_again();
    Api::of(server)
}

/// A task that a server on its way to death was asked for; its answer may have been lost.
fn ask_dying(api: &Api, body: &Value, key: &str) {
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
    let _ = api.try_send("POST", "/v1/responses", &headers, body.to_string().as_bytes());
}

/// What came of that task: the caller asks again with the same key, as it should.
fn ask_again(api: &Api, body: &Value, key: &str) -> Value {
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
    api.send("POST", "/v1/responses", &headers, body.to_string().as_bytes()).ok()
}

#[test]
fn a_turn_runs_once_however_far_its_environment_was() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let harness = Api::of(&server).harness();
    for moment in ["turn.admitted", "create.recorded", "create.called"] {
        let api = arm(&mut server, moment);
        let body = json!({"input": MARK, "metadata": {"harness_id": harness}});
        ask_dying(&api, &body, moment);
        let api = revive(&mut server);
        let response = ask_again(&api, &body, moment);
        assert_eq!((response["status"].as_str(), said(&response).as_str()), (Some("completed"), "1\n"), "{moment}");
        let sessions = api.get("/v1/sessions").ok();
        assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{moment}: {sessions}");
        assert_eq!(said(&api.go_on(&response, COUNT)), "1\n", "{moment}");
        assert_eq!(names(&server, "environments/slots").len(), 1, "{moment}");
        leaves_nothing(&server, &api);
    }
}

#[test]
fn a_turn_that_had_its_input_is_interrupted_and_never_replayed() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let harness = Api::of(&server).harness();
    for (moment, marks) in [("turn.promoted", "0\n"), ("turn.ran", "1\n"), ("turn.collected", "1\n")] {
        let api = arm(&mut server, moment);
        let body = json!({"input": format!("echo said; {MARK}"), "metadata": {"harness_id": harness}});
        ask_dying(&api, &body, moment);
        let api = revive(&mut server);
        // The environment goes on; nothing of the turn does.
        assert_eq!(commands(&server), Vec::<String>::new(), "{moment}");
        let response = ask_again(&api, &body, moment);
        assert_eq!((&response["status"], &response["error"]["code"]), (&json!("failed"), &json!("harness_error")));
        assert!(text(&response["error"]["message"]).starts_with("interrupted"), "{moment}: {response}");
        assert_eq!(response["error"]["detail"]["stead_reason"], "interrupted", "{moment}");
        if moment == "turn.collected" {
            assert_eq!(said(&response), "said\n1\n");
        }
        // The session goes on where its files are.
        let next = api.go_on(&response, "touch marks; wc -l < marks");
        assert_eq!((said(&next).as_str(), next["status"].as_str()), (marks, Some("completed")), "{moment}");
        leaves_nothing(&server, &api);
    }
}

#[test]
fn stop_and_start_happen_once_and_keep_the_files() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    let project = api.environment("crash", &[("a.txt", "from the project\n")]);
    api.build(&project);
    for moment in ["stop.recorded", "stop.called", "start.recorded", "start.called"] {
        let api = arm(&mut server, moment);
        let first = api.run(&harness, MARK);
        assert_eq!(said(&first), "1\n", "{moment}");
        // Another set of mounts: the environment is stopped and started.
        let script = format!("cat /env/crash/a.txt; {MARK}");
        let body = json!({
            "input": script, "previous_response_id": first["id"], "metadata": {"environment": project},
        });
        ask_dying(&api, &body, moment);
        let api = revive(&mut server);
        let response = ask_again(&api, &body, moment);
        assert_eq!(said(&response), "from the project\n2\n", "{moment}: {response}");
        assert_eq!(said(&api.go_on(&response, COUNT)), "2\n", "{moment}");
        assert_eq!(names(&server, "environments/slots").len(), 1, "{moment}");
        leaves_nothing(&server, &api);
    }
}

#[test]
fn an_idle_stop_that_was_cut_short_keeps_the_files() {
    needs_root!();
    let mut server = TestServer::start(&[("sessions.idle_stop", "1s")]);
    let harness = Api::of(&server).harness();
    let api = arm(&mut server, "stop.called");
    let first = api.run(&harness, MARK);
    let api = revive(&mut server);
    assert_eq!(processes(&server), Vec::<String>::new());
    assert_eq!(said(&api.go_on(&first, MARK)), "2\n");
    leaves_nothing(&server, &api);
}

#[test]
fn a_deletion_that_was_cut_short_ends_with_everything_gone() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let harness = Api::of(&server).harness();
    for moment in ["delete.recorded", "delete.called"] {
        let api = arm(&mut server, moment);
        let response = api.run(&harness, &format!("echo secret > left; {MARK}"));
        assert!(!belongings(&server).is_empty());
        let session = format!("/v1/sessions/{}", text(&response["metadata"]["session_id"]));
        let _ = api.try_send("DELETE", &session, &[], b"");
        let api = revive(&mut server);
        assert_eq!(api.get(&session).status, 404, "{moment}");
        eventually("that everything is gone", || {
            let mut left = belongings(&server);
            left.extend(names(&server, "logs"));
            if left.is_empty() { Ok(()) } else { Err(format!("{moment}: {left:#?}")) }
        });
        assert_eq!(api.get(&format!("/v1/responses/{}", text(&response["id"]))).status, 404, "{moment}");
    }
}

#[test]
fn a_build_that_was_cut_short_is_failed_and_the_next_one_is_whole() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    for moment in ["build.admitted", "build.claimed", "build.step.opened", "build.step.ran", "build.worked"] {
        let api = arm(&mut server, moment);
        let name = moment.replace('.', "-");
        let setup = "for i in $(seq 1 200); do echo $i > made-$i; done\n";
        let project = api.environment(&name, &[("a.txt", "a\n"), ("setup.sh", setup)]);
        let _ = api.try_send("POST", &format!("/v1/environments/{project}/build"), &[], b"");
        let api = revive(&mut server);
        let record = api.ended_build(&project, 1);
        let shown = api.get(&format!("/v1/environments/{project}")).ok();
        if moment == "build.admitted" {
            assert_eq!((&record["status"], &shown["version"]), (&json!("ready"), &json!(1)), "{record}");
        } else {
            assert_eq!((&record["status"], &shown["status"]), (&json!("failed"), &json!("failed")), "{moment}");
            assert!(text(&record["error"]).contains("interrupted"), "{moment}: {record}");
            assert_eq!(shown["version"], Value::Null, "{moment}");
            let refused = api.ask(&json!({
                "input": "true", "metadata": {"harness_id": harness, "environment": project},
            }));
            assert_eq!((refused.status, &refused.json()["error"]["code"]), (409, &json!("environment_not_ready")));
        }
        assert_eq!(unfinished_builds(&server), Vec::<String>::new(), "{moment}");
        let next = api.build(&project);
        assert_eq!(next["version"], 2, "{moment}");
        let read = api.ask(&json!({
            "input": format!("cd /env/{name} && cat a.txt && ls | grep -c made- && cat made-*|sort -n|tail -1"),
            "metadata": {"harness_id": harness, "environment": project},
        }));
        assert_eq!(said(&read.ok()), "a\n200\n200\n", "{moment}");
        leaves_nothing(&server, &api);
    }
}

/// Begins a streaming task and returns when it has said something.
fn speaking(api: &Api, harness: &str) -> Value {
    let body = json!({
        "input": format!("{MARK} > /dev/null; echo first; sleep 300; echo never"),
        "stream": true, "metadata": {"harness_id": harness},
    });
    let headers = [("Content-Type", "application/json")];
    let opened = api.open("POST", "/v1/responses", &headers, body.to_string().as_bytes(), Framing::Length).unwrap();
    let mut response = Value::Null;
    for line in BufReader::new(opened.body).lines() {
        let Ok(event) = serde_json::from_str::<Value>(line.unwrap().trim_start_matches("data:")) else { continue };
        match event["type"].as_str() {
            Some("response.created") => response = event["response"].clone(),
            Some("response.output_text.delta") => break,
            _ => {}
        }
    }
    response
}

#[test]
fn a_kill_and_a_stop_keep_what_a_running_turn_has_said() {
    needs_root!();
    let mut server = TestServer::start(&[("server.shutdown_grace", "5s")]);
    let harness = Api::of(&server).harness();
    for gracefully in [false, true] {
        let api = Api::of(&server);
        let begun = speaking(&api, &harness);
        if gracefully {
            let (status, took) = server.terminate();
            assert_eq!(status, Some(0));
            assert!(took < Duration::from_secs(15), "the stop took {took:?}");
            assert_eq!(processes(&server), Vec::<String>::new());
        } else {
            server.kill();
        }
        server.start_again();
        let api = Api::of(&server);
        let response = api.ended(&begun);
        assert_eq!((&response["status"], &response["error"]["code"]), (&json!("failed"), &json!("harness_error")));
        assert!(text(&response["error"]["message"]).starts_with("interrupted"), "{response}");
        assert_eq!(said(&response), "first\n", "gracefully: {gracefully}");
        assert_eq!(commands(&server), Vec::<String>::new());
        assert_eq!(said(&api.go_on(&response, COUNT)), "1\n");
        leaves_nothing(&server, &api);
    }
}

#[test]
fn a_stop_interrupts_a_build_and_leaves_nothing_of_it() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let api = Api::of(&server);
    // A script that stands still does not hear that it shall end.
    let project = api.environment("still", &[("setup.sh", "echo begun; kill -STOP $$\n")]);
    let version = api.begin_build(&project);
    let path = format!("/v1/environments/{project}/builds/{version}");
    eventually("the script to begin", || {
        let record = api.get(&path).ok();
        if text(&record["log"]).contains("begun") { Ok(()) } else { Err(record.to_string()) }
    });
    let (status, took) = server.terminate();
    assert_eq!(status, Some(0));
    assert!(took < Duration::from_secs(15), "the stop took {took:?}");
    assert_eq!(belongings(&server), Vec::<String>::new());
    server.start_again();
    let api = Api::of(&server);
    let record = api.get(&path).ok();
    assert_eq!(record["status"], "failed");
    assert!(text(&record["error"]).starts_with("interrupted"), "{record}");
    api.put(&project, "setup.sh", "true\n");
    assert_eq!(api.build(&project)["status"], "ready");
}
