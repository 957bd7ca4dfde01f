//! An end of everything.

use std::time::{Duration, Instant};

use stead_domain::turn::TurnState;
use stead_testkit::doubles::Machine;

use crate::fixture::{World, came_to};

/// What a stop may take that need not wait for anything.
const SOON: Duration = Duration::from_secs(4);

#[test]
fn an_end_of_everything_stops_what_still_starts_and_waits_for_nobody() {
    let world = World::new(Machine::adopting());
    let server = world.process();
    let running = server.run("hold");
    world.machine.say(running, "begun");
    server.shows(running, "begun");
    world.machine.set_start_takes(Duration::from_millis(600));
    let starting = server.start("hold").turn.id;
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    server.wait(server.engine.stop(Duration::from_secs(20)));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!(world.machine.running(), 0, "what came up behind the end was stopped");
    let view = server.end_of(running);
    came_to(&view, TurnState::Interrupted, "begun");
    let failure = view.turn.outcome.failure.unwrap().message;
    assert!(failure.contains("the server stopped while the task ran"), "{failure}");
    let queued = server.wait(server.engine.turn_get(&server.caller, starting)).unwrap().turn;
    assert_eq!(queued.state, TurnState::Queued);
    server.crash();

    // It has lost nothing, and runs in the next process.
    let next = world.process();
    next.wait(world.machine.runs(starting));
    world.machine.end(starting, 0);
    came_to(&next.end_of(starting), TurnState::Completed, "");
}

#[test]
fn an_end_of_everything_settles_what_a_hand_over_has_left_behind() {
    let world = World::new(Machine::adopting());
    let server = world.process();
    let running = server.run("hold");
    server.wait(server.engine.hand_over(Duration::from_secs(10)));
    server.wait(server.engine.stop(Duration::from_secs(20)));
    assert_eq!(world.machine.running(), 0);
    came_to(&server.end_of(running), TurnState::Interrupted, "");
    let notes = std::fs::read_dir(world.handovers()).unwrap().count();
    assert_eq!(notes, 0, "nobody takes it over");
}

#[test]
fn whoever_waits_is_answered_when_the_server_says_so() {
    let world = World::new(Machine::adopting());
    let server = world.process();
    let running = server.run("hold");
    let waiting = server.engine.turn_await(&server.caller, running);
    let (view, ()) = server.wait(async {
        tokio::join!(waiting, async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            server.engine.answer_waiting();
        })
    });
    assert_eq!(view.unwrap().turn.state, TurnState::InProgress);
    world.machine.end(running, 0);
    came_to(&server.end_of(running), TurnState::Completed, "");
}
