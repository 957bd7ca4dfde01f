//! Who waits for a place.

use std::time::Duration;

use stead_domain::turn::TurnState;
use stead_testkit::doubles::Machine;

use crate::fixture::{World, came_to};

#[test]
fn places_are_taken_in_the_order_of_admission_and_soon() {
    let machine = Machine::default();
    machine.set_places(1);
    let world = World::new(machine);
    let server = world.process_with(|settings| settings.idle_stop = Duration::ZERO);
    let first = server.run("hold 0");
    let waiting: Vec<_> = (1..5).map(|number| server.start(&format!("hold {number}")).turn.id).collect();
    let begun = std::time::Instant::now();
    let mut running = first;
    for next in waiting {
        world.machine.end(running, 0);
        let session = server.end_of(running).session.id;
        server.wait(server.engine.session_delete(&server.caller, session)).unwrap();
        server.wait(world.machine.runs(next));
        running = next;
    }
    assert!(begun.elapsed() < Duration::from_secs(4), "each waited for a sweep");
    assert_eq!(world.machine.scripts(), ["hold 0", "hold 1", "hold 2", "hold 3", "hold 4"]);
}

#[test]
fn the_wait_for_a_place_counts_from_the_admission_and_outlasts_a_hand_over() {
    let machine = Machine::adopting();
    machine.set_places(1);
    let world = World::new(machine);
    let short = |settings: &mut stead_engine::Settings| settings.start_wait = Duration::from_secs(3);
    let first = world.process_with(short);
    let running = first.run("hold");
    let (gives_up, stays) = (first.start("echo late").turn.id, first.start("echo patient").turn.id);
    std::thread::sleep(Duration::from_secs(2));
    first.hand_over();
    let begun = std::time::Instant::now();
    let second = world.process_with(short);
    let view = second.end_of(gives_up);
    assert!(begun.elapsed() < Duration::from_millis(2500), "the wait began anew");
    came_to(&view, TurnState::Failed, "");
    let failure = view.turn.outcome.failure.unwrap().message;
    assert!(failure.contains("within 3 seconds"), "{failure}");
    came_to(&second.end_of(stays), TurnState::Failed, "");
    world.machine.end(running, 0);
    came_to(&second.end_of(running), TurnState::Completed, "");
}

#[test]
fn a_start_that_a_crash_cut_off_is_tried_once_more_or_says_what_happened() {
    let world = World::new(Machine::adopting());
    let short = |settings: &mut stead_engine::Settings| settings.start_wait = Duration::from_secs(3);
    let first = world.process_with(short);
    world.machine.set_start_takes(Duration::from_mins(1));
    let (slow, stuck) = (first.start("echo slow").turn.id, first.start("echo stuck").turn.id);
    std::thread::sleep(Duration::from_millis(1500));
    first.crash();
    std::thread::sleep(Duration::from_secs(2));
    // Longer than the moment that is left of its time, and less than a start may take.
    world.machine.set_start_takes(Duration::from_millis(1500));
    let second = world.process_with(short);
    came_to(&second.end_of(slow), TurnState::Completed, "slow\n");
    came_to(&second.end_of(stuck), TurnState::Completed, "stuck\n");

    world.machine.set_start_takes(Duration::from_mins(1));
    let stuck = second.start("echo stuck").turn.id;
    std::thread::sleep(Duration::from_secs(1));
    second.crash();
    let third = world.process_with(short);
    let view = third.end_of(stuck);
    came_to(&view, TurnState::Failed, "");
    let failure = view.turn.outcome.failure.unwrap().message;
    assert!(failure.ends_with("seconds: the server was restarted meanwhile"), "{failure}");
}
