//! Builds at a stop: they are not handed over, but have the rest of the grace to end.

use std::time::Duration;

use serde_json::json;

use crate::api::Api;
use crate::objects::{commands, eventually, processes, said, text};
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

/// Wherever a task's start is when everything is ended, nothing of it runs on, and the end does not wait for it.
#[test]
fn tasks_that_are_just_starting_keep_no_end_waiting() {
    needs_root!();
    let mut server = TestServer::start(&[("server.shutdown_grace", "10s")]);
    let api = Api::of(&server);
    let harness = api.harness();
    for delay in [0, 20, 50, 90, 150, 300] {
        let begun: Vec<_> = (0..3).map(|_| api.begin(&harness, "sleep 300.575")).collect();
        std::thread::sleep(Duration::from_millis(delay));
        let (status, took) = server.terminate();
        assert_eq!(status, Some(0), "{}", server.log());
        assert!(took < Duration::from_secs(4), "{delay} ms: {took:?}\n{}", server.log());
        assert_eq!(processes(&server), Vec::<String>::new(), "{delay} ms");
        server.start_again();
        assert!(!server.log().contains("whose driver is lost"), "{delay} ms: {}", server.log());
        for response in begun {
            let path = format!("/v1/responses/{}", text(&response["id"]));
            let now = api.get(&path).ok();
            // One that had not begun is begun now.
            if now["status"] == "in_progress" {
                api.post(&format!("{path}/cancel"), &json!({})).ok();
            } else {
                assert!(now.to_string().contains("the server stopped while the task ran"), "{now}");
            }
            api.ended(&response);
        }
    }
}

/// Nobody's wait for a task keeps an end of everything waiting, be it asked for at once or by a second signal.
#[test]
fn a_request_that_waits_keeps_no_end_waiting() {
    use rustix::process::Signal;
    needs_root!();
    let mut server = TestServer::start(&[("server.shutdown_grace", "20s")]);
    let api = Api::of(&server);
    let body = json!({"input": "sleep 300.576", "metadata": {"harness_id": api.harness()}}).to_string();
    for signals in [&[Signal::TERM, Signal::TERM][..], &[Signal::INT]] {
        let began = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| api.try_send("POST", "/v1/responses", &[], body.as_bytes()));
            eventually("the task to run", || match commands(&server).iter().any(|line| line.contains("300.576")) {
                true => Ok(()),
                false => Err(format!("{:?}", processes(&server))),
            });
            let began = std::time::Instant::now();
            for signal in signals {
                server.signal(*signal);
                std::thread::sleep(Duration::from_millis(300));
            }
            let answer = waiting.join().unwrap().expect("whoever waits is told");
            assert_eq!(answer.ok()["status"], "failed");
            began
        });
        assert_eq!(server.wait_for_end().0, Some(0), "{}", server.log());
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}\n{}", began.elapsed(), server.log());
        assert_eq!(processes(&server), Vec::<String>::new());
        server.start_again();
    }
}

/// Whoever waits for a task's end when the server hands over is told which task it is, and that it goes on.
#[test]
fn a_request_that_waits_is_answered_before_a_hand_over() {
    needs_root!();
    let mut server = TestServer::start(&[("server.shutdown_grace", "3s")]);
    let api = Api::of(&server);
    let body = json!({"input": "echo one; sleep 8; echo two", "metadata": {"harness_id": api.harness()}});
    let answer = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| api.ask(&body).ok());
        eventually("the task to run", || match commands(&server).iter().any(|line| line.contains("sleep 8")) {
            true => Ok(()),
            false => Err(format!("{:?}", processes(&server))),
        });
        server.signal(rustix::process::Signal::TERM);
        waiting.join().unwrap()
    });
    assert_eq!(answer["status"], "in_progress", "{answer}");
    assert_eq!(server.wait_for_end().0, Some(0), "{}", server.log());
    server.start_again();
    let ended = api.ended(&answer);
    assert_eq!((&ended["status"], said(&ended).as_str()), (&json!("completed"), "one\ntwo\n"), "{ended}");
}

/// What a hand-over lets go for open connections, and what a start that fails late has begun, is gone when everything is ended.
#[test]
fn nothing_is_left_of_what_was_let_go() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let api = Api::of(&server);
    api.run(&api.harness(), "true");
    server.hand_over();
    server.start_again();
    let groups = |server: &TestServer| {
        let groups = server.groups().into_iter().flat_map(|group| std::fs::read_dir(group).into_iter().flatten());
        groups.flatten().map(|group| group.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let let_go = groups(&server).into_iter().any(|group| group.to_string_lossy().contains("/egress-"));
    assert!(let_go, "one was let go: {:?}", groups(&server));
    server.terminate();
    assert_eq!(groups(&server), Vec::<std::path::PathBuf>::new());

    // A start that fails behind everything else: nobody could ask it to hand over.
    let socket = server.data().join("run/control.sock");
    let _ = std::fs::remove_file(&socket);
    std::fs::create_dir_all(socket.join("taken")).unwrap();
    let failed = server.tried(&[]);
    assert_eq!(failed.status, 1, "{}", failed.stderr);
    assert!(failed.stderr.contains("control.sock"), "{}", failed.stderr);
    assert_eq!(groups(&server), Vec::<std::path::PathBuf>::new());
}
