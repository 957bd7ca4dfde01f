//! Builds at a stop: they are not handed over, but have the rest of the grace to end.

use std::time::Duration;

use serde_json::json;

use crate::api::Api;
use crate::objects::{eventually, processes};
use crate::program::needs_root;
use crate::server::TestServer;

/// A project whose script runs so long, with its build under way: the path of the build's record.
fn building(api: &Api, name: &str, seconds: &str) -> String {
    let id = api.environment(name, &[("setup.sh", &format!("sleep {seconds}; echo DONE"))]);
    let path = format!("/v1/environments/{id}/builds/{}", api.begin_build(&id));
    eventually("the script to run", || {
        let record = api.get(&path).ok();
        if record["stage"] == "setup.sh" { Ok(()) } else { Err(record.to_string()) }
    });
    path
}

#[test]
fn a_build_ends_within_the_grace_of_a_stop() {
    needs_root!();
    let mut server = TestServer::start(&[("server.shutdown_grace", "10s"), ("builds.slots", "1")]);
    let api = Api::of(&server);
    let first = building(&api, "first", "2.5");
    let waiting = api.environment("second", &[("setup.sh", "echo SECOND")]);
    let waits = format!("/v1/environments/{waiting}/builds/{}", api.begin_build(&waiting));
    let (status, took) = server.hand_over();
    assert_eq!(status, Some(0), "{}", server.log());
    assert!(took < Duration::from_secs(9), "it was waited for too long: {took:?}");
    assert_eq!(processes(&server), Vec::<String>::new());
    server.start_again();
    let record = api.get(&first).ok();
    assert_eq!((&record["status"], &record["error"]), (&json!("ready"), &json!("")), "{record}");
    // One that waited for its turn began nothing more, and goes on waiting in the next process.
    eventually("the build that waited", || {
        let record = api.get(&waits).ok();
        if record["status"] == "ready" { Ok(()) } else { Err(record.to_string()) }
    });
    assert!(!server.log().contains("settled what an earlier server process left"), "{}", server.log());
}

#[test]
fn a_build_that_does_not_end_in_time_is_interrupted() {
    needs_root!();
    let mut server = TestServer::start(&[("server.shutdown_grace", "2s")]);
    let api = Api::of(&server);
    let path = building(&api, "long", "600.573");
    let (status, took) = server.hand_over();
    assert_eq!(status, Some(0), "{}", server.log());
    assert!(took > Duration::from_millis(1500) && took < Duration::from_secs(10), "{took:?}");
    assert_eq!(processes(&server), Vec::<String>::new());
    server.start_again();
    let record = api.get(&path).ok();
    assert_eq!(
        (&record["status"], &record["stead_failure"]["kind"]),
        (&json!("failed"), &json!("interrupted")),
        "{record}"
    );
    // The next one is a build like any other.
    let id = path.split('/').nth(3).unwrap();
    api.put(id, "setup.sh", "echo again");
    api.build(id);

    // A signal that shall end everything ends builds at once.
    let path = building(&api, "longer", "600.574");
    let (_, took) = server.terminate();
    assert!(took < Duration::from_millis(1900), "{took:?}");
    server.start_again();
    assert_eq!(api.get(&path).ok()["stead_failure"]["kind"], "interrupted");
}
