//! What a task costs the store.

use stead_domain::turn::TurnState;
use stead_testkit::doubles::Machine;

use crate::fixture::{World, came_to};

/// Between the request and the end: admission, promotion, the text, the end.
const COMMITS: u64 = 4;

#[test]
fn a_task_is_admitted_started_and_ended_in_few_commits_and_fewer_reads() {
    let world = World::new(Machine::default());
    let server = world.process();
    came_to(&server.end_of(server.start("echo warm").turn.id), TurnState::Completed, "warm\n");
    let before = server.engine.store_use();
    let turn = server.start("hold").turn.id;
    server.wait(world.machine.runs(turn));
    let started = server.engine.store_use();
    assert_eq!(started.commits - before.commits, 2, "admission and promotion");
    // The agent.
    assert!(started.reads - before.reads <= 1, "{} reads before Start", started.reads - before.reads);
    world.machine.say(turn, "hello\n");
    server.shows(turn, "hello\n");
    world.machine.end(turn, 0);
    let view = server.end_of(turn);
    let ended = server.engine.store_use();
    came_to(&view, TurnState::Completed, "hello\n");
    assert!(ended.commits - before.commits <= COMMITS, "{} commits", ended.commits - before.commits);
    // The next turn of the session starts the driver with what admission has read.
    let mut next = server.request("hold");
    (next.previous, next.agent_id) = (Some(turn), None);
    let before = server.engine.store_use();
    let turn = server.wait(server.engine.turn_start(&server.caller, next)).unwrap().turn.id;
    server.wait(world.machine.runs(turn));
    let started = server.engine.store_use();
    assert_eq!(started.commits - before.commits, 2);
    // Its session with attachment and agent, the turn before it, and its environment.
    assert!(started.reads - before.reads <= 5, "{} reads before Start", started.reads - before.reads);
}
