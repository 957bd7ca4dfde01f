//! A connection that is lost while its script runs, and a log that takes nothing.

use std::time::Duration;

use stead_domain::turn::TurnState;
use stead_testkit::doubles::Machine;

use crate::fixture::{World, came_to};

#[test]
fn a_lost_connection_costs_a_script_nothing_until_it_is_lost_too_often() {
    let world = World::new(Machine::default());
    let server = world.process();
    let turn = server.run("hold");
    let mut said = String::new();
    for number in 0..10 {
        let line = format!("{number}\n");
        world.machine.say(turn, &line);
        said.push_str(&line);
        world.machine.lose_connections();
        server.shows(turn, &said);
    }
    // Everything is in the log, so nothing is kept for anybody.
    server.wait(async {
        while world.machine.acknowledged(turn) < said.len() as u64 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    world.machine.lose_connections();
    server.wait(server.engine.turn_cancel(&server.caller, turn)).unwrap();
    came_to(&server.end_of(turn), TurnState::Cancelled, &said);
    let turn = server.run("hold");
    world.machine.say(turn, "one\n");
    server.shows(turn, "one\n");
    let view = server.wait(async {
        loop {
            world.machine.lose_connections();
            let view = server.engine.turn_get(&server.caller, turn).await.unwrap();
            if view.turn.state.is_ended() {
                return view;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    came_to(&view, TurnState::Interrupted, "one\n");
}

#[test]
fn a_full_disk_holds_a_script_up_and_loses_nothing_of_it() {
    let world = World::new(Machine::default());
    let server = world.process();
    let turn = server.run("hold");
    world.machine.say(turn, "one\n");
    server.shows(turn, "one\n");
    server.logs.set_full(true);
    world.machine.say(turn, "two\n");
    std::thread::sleep(Duration::from_millis(200));
    world.machine.say(turn, "three\n");
    world.machine.end(turn, 0);
    std::thread::sleep(Duration::from_millis(800));
    let view = server.wait(server.engine.turn_get(&server.caller, turn)).unwrap();
    assert_eq!(view.turn.state, TurnState::InProgress);
    server.logs.set_full(false);
    came_to(&server.end_of(turn), TurnState::Completed, "one\ntwo\nthree\n");
}

#[test]
fn a_script_that_went_well_comes_to_nothing_when_what_it_left_is_lost() {
    let world = World::new(Machine::default());
    let server = world.process();
    for (code, state) in [(0, TurnState::Interrupted), (3, TurnState::Failed)] {
        let turn = server.run("hold");
        world.machine.say(turn, "one\n");
        server.shows(turn, "one\n");
        world.machine.put_file("left", b"behind");
        world.machine.end_with_all(turn, code);
        came_to(&server.end_of(turn), state, "one\n");
    }
}
