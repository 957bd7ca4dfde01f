//! What one workspace may have of the machine, and what that means to it and to another.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{eventually, processes, said, text};
use crate::program::needs_root;
use crate::server::TestServer;

fn task(harness: &str, script: &str) -> Value {
    json!({"input": script, "metadata": {"harness_id": harness}})
}

fn session(response: &Value) -> String {
    format!("/v1/sessions/{}", text(&response["metadata"]["session_id"]))
}

/// How many places are taken, of whatever workspace.
fn places(server: &TestServer) -> usize {
    let leases = std::fs::read_dir(server.data().join("environments/slots")).unwrap().flatten();
    leases.filter(|lease| lease.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok())).count()
}

#[test]
fn a_workspace_that_has_its_share_waits_and_no_other_waits_for_it() {
    needs_root!();
    let server = TestServer::start(&[("native.workspace_slots", "1")]);
    let (ours, theirs) = (Api::of(&server), Api::of_tenant(&server, "other"));
    let [our_harness, their_harness] = [&ours, &theirs].map(Api::harness);
    let first = ours.ask(&task(&our_harness, "echo first")).ok();
    assert_eq!(said(&first), "first\n");

    let mut second = task(&our_harness, "echo second");
    second["background"] = json!(true);
    let second = ours.ask(&second).ok();
    let refused = || server.log().matches("the workspace holds as many environments and build steps").count();
    // Said once, however often it is asked for.
    eventually("a refusal", || if refused() > 0 { Ok(()) } else { Err(server.log()) });
    let path = format!("/v1/responses/{}", text(&second["id"]));
    let status = |wanted: &str| {
        let found = ours.get(&path).ok();
        if found["status"] == wanted { Ok(found) } else { Err(found.to_string()) }
    };
    assert!(status("queued").is_ok() || status("in_progress").is_ok(), "{:?}", status(""));
    // Meanwhile, and again.
    for word in ["one", "two"] {
        let previous = theirs.ask(&task(&their_harness, &format!("echo {word}"))).ok();
        assert_eq!(said(&previous), format!("{word}\n"));
        let session = text(&previous["metadata"]["session_id"]).to_owned();
        theirs.delete(&format!("/v1/sessions/{session}")).ok();
    }

    // A build is told, and does not wait.
    let project = ours.environment("built", &[("setup.sh", "echo x > made")]);
    let version = ours.begin_build(&project);
    let record = ours.ended_build(&project, version);
    assert_eq!(record["status"], "failed", "{record:#}");
    assert!(text(&record["log"]).contains("sessions that are deleted make room"), "{record:#}");

    let session = text(&first["metadata"]["session_id"]);
    ours.delete(&format!("/v1/sessions/{session}")).ok();
    let second = eventually("the second task has run", || status("completed"));
    assert_eq!(said(&second), "second\n");
}

#[test]
fn a_deleted_session_that_waits_for_a_place_holds_up_no_deletion_and_no_idle_stop() {
    needs_root!();
    let settings = [("native.slots", "8"), ("native.workspace_slots", "1"), ("sessions.idle_stop", "2s")];
    let server = TestServer::start(&settings);
    let (ours, theirs) = (Api::of(&server), Api::of_tenant(&server, "other"));
    let [our_harness, their_harness] = [&ours, &theirs].map(Api::harness);
    let holder = ours.ask(&task(&our_harness, "echo held")).ok();
    let background = |script: &str| {
        let mut body = task(&our_harness, script);
        body["background"] = json!(true);
        ours.ask(&body).ok()
    };
    let refused = || server.log().matches("the workspace holds as many environments and build steps").count();
    let waiting = background("echo never");
    // Said once, however often it is asked for.
    eventually("a refusal", || if refused() > 0 { Ok(()) } else { Err(server.log()) });
    // One is cancelled before its session goes, the other by that.
    let began = Instant::now();
    let cancelled = ours.post(&format!("/v1/responses/{}/cancel", text(&waiting["id"])), &json!({})).ok();
    assert_eq!(cancelled["status"], "cancelled");
    ours.delete(&session(&waiting)).ok();
    let before = refused();
    let second = background("echo never");
    eventually("another refusal", || if refused() > before { Ok(()) } else { Err(server.log()) });
    ours.delete(&session(&second)).ok();
    ours.delete(&session(&holder)).ok();
    eventually("the places are free", || match places(&server) {
        0 => Ok(()),
        taken => Err(format!("{taken} are taken")),
    });
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());

    // Another waits with its session kept; what others do goes on beside it.
    let holder = ours.ask(&task(&our_harness, "echo held")).ok();
    let before = refused();
    let waiting = background("echo after all");
    eventually("another refusal", || if refused() > before { Ok(()) } else { Err(server.log()) });
    let deleted = theirs.ask(&task(&their_harness, "echo one")).ok();
    theirs.delete(&session(&deleted)).ok();
    eventually("the other workspace's place is free", || match places(&server) {
        1 => Ok(()),
        taken => Err(format!("{taken} are taken")),
    });
    eventually("the idle stop of what holds the place", || match processes(&server).len() {
        0 => Ok(()),
        running => Err(format!("{running} run: {}", server.log())),
    });
    ours.delete(&session(&holder)).ok();
    let ended = eventually("the waiting task has its turn", || {
        let found = ours.get(&format!("/v1/responses/{}", text(&waiting["id"]))).ok();
        if found["status"] == "completed" { Ok(found) } else { Err(found.to_string()) }
    });
    assert_eq!(said(&ended), "after all\n");
}

#[test]
fn a_task_waits_for_a_place_no_longer_than_it_may_and_the_next_one_tries_again() {
    needs_root!();
    let mut server = TestServer::start(&[("native.workspace_slots", "1"), ("sessions.start_wait", "6s")]);
    let (ours, theirs) = (Api::of(&server), Api::of_tenant(&server, "other"));
    let [our_harness, their_harness] = [&ours, &theirs].map(Api::harness);
    let holder = ours.ask(&task(&our_harness, "echo held")).ok();
    let mut late = Vec::new();
    for (budget, least) in [(Some(2), 1), (None, 5)] {
        let mut body = task(&our_harness, "echo late");
        if let Some(seconds) = budget {
            body["timeout_seconds"] = json!(seconds);
        }
        let began = Instant::now();
        let ended = ours.ask(&body).ok();
        assert_eq!(
            (&ended["status"], &ended["metadata"]["stead_failure"]["kind"]),
            (&json!("failed"), &json!("environment"))
        );
        let message = text(&ended["error"]["message"]);
        assert!(message.contains("the workspace holds as many environments"), "{message}");
        assert!(message.contains("sessions that are deleted make room"), "{message}");
        assert!(began.elapsed() >= Duration::from_secs(least), "{:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
        late.push(ended);
    }
    // The other workspace had no part in it.
    assert_eq!(said(&theirs.ask(&task(&their_harness, "echo one")).ok()), "one\n");

    // A restart makes nothing for a task that has given up.
    server.kill();
    server.start_again();
    let ours = Api::of(&server);
    ours.delete(&session(&late[0])).ok();
    ours.delete(&session(&holder)).ok();
    eventually("the holder's place is free", || match places(&server) {
        1 => Ok(()),
        taken => Err(format!("{taken} are taken")),
    });
    let mut again = task(&our_harness, "echo at last");
    again["previous_response_id"] = late[1]["id"].clone();
    assert_eq!(said(&ours.ask(&again).ok()), "at last\n");
    ours.delete(&session(&late[1])).ok();
    eventually("that place is free as well", || match places(&server) {
        1 => Ok(()),
        taken => Err(format!("{taken} are taken")),
    });
}
