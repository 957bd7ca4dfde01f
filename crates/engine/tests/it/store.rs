//! A store that fails, hangs or loses its answers, at any commit of a task.

use std::time::Duration;

use stead_domain::Code;
use stead_domain::session::Face;
use stead_domain::turn::TurnState;
use stead_engine::RetryKey;
use stead_testkit::doubles::CommitFate::{self, AnswerLost, Fails, Hangs, HangsDone, Happens};
use stead_testkit::doubles::Machine;

use crate::fixture::{Process, World, came_to};

/// Commits of a task after its admission: promotion, text, end.
const COMMITS: usize = 3;

fn retry(number: usize, fate: CommitFate) -> RetryKey {
    let key = format!("{number} {fate:?}");
    RetryKey { face: Face::Uhp, route: "POST /v1/responses", key: key.clone(), fingerprint: key }
}

/// Asks until the store answers, as a client does.
fn start(server: &Process, retry: RetryKey) -> stead_domain::TurnId {
    let mut request = server.request("hold");
    request.retry = Some(retry);
    server.wait(async {
        loop {
            match server.engine.turn_start(&server.caller, request.clone()).await {
                Ok(started) => return started.turn.id,
                Err(error) => assert_eq!(error.code, Code::BackendUnavailable),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
}

#[test]
fn a_task_outlasts_a_store_that_fails_at_any_of_its_commits() {
    let world = World::new(Machine::default());
    let server = world.process();
    let mut tasks = 0;
    for fate in [Fails, AnswerLost, Hangs, HangsDone] {
        for bad in 0..=COMMITS {
            let fates: Vec<CommitFate> = std::iter::repeat_n(Happens, bad).chain([fate, fate]).collect();
            server.store.decide(fates);
            let turn = start(&server, retry(bad, fate));
            server.wait(world.machine.runs(turn));
            world.machine.say(turn, "one\n");
            server.shows(turn, "one\n");
            world.machine.say(turn, "two\n");
            world.machine.end(turn, 0);
            came_to(&server.end_of(turn), TurnState::Completed, "one\ntwo\n");
            tasks += 1;
            assert_eq!(world.machine.scripts().len(), tasks, "{fate:?} at commit {bad}: a script ran twice");
        }
    }
}

#[test]
fn a_store_that_is_down_for_a_while_refuses_requests_and_forgets_nothing() {
    let world = World::new(Machine::default());
    let server = world.process();
    let (ends, goes_on) = (server.run("hold"), server.run("hold"));
    world.machine.say(ends, "one\n");
    server.shows(ends, "one\n");
    server.store.set_down(true);
    world.machine.say(ends, "two\n");
    world.machine.end(ends, 0);
    world.machine.say(goes_on, "three\n");
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(300));
        let refused = server.wait(server.engine.turn_start(&server.caller, server.request("echo no"))).unwrap_err();
        assert_eq!(refused.code, Code::BackendUnavailable);
        assert!(server.wait(server.engine.turn_get(&server.caller, ends)).is_err());
    }
    server.store.set_down(false);
    came_to(&server.end_of(ends), TurnState::Completed, "one\ntwo\n");
    server.shows(goes_on, "three\n");
    server.wait(server.engine.turn_cancel(&server.caller, goes_on)).unwrap();
    came_to(&server.end_of(goes_on), TurnState::Cancelled, "three\n");
    assert_eq!(world.machine.scripts(), ["hold", "hold"]);
}
