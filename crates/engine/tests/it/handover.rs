//! Turns across server processes: handed over, or cut off.

use stead_domain::turn::{ExitStatus, TurnState};
use stead_testkit::doubles::Machine;

use crate::fixture::{World, came_to};

#[test]
fn a_running_task_goes_on_in_the_next_server_process() {
    let world = World::new(Machine::adopting());
    let first = world.process();
    let turn = first.run("hold");
    let (quick, waiting) = (first.run("hold"), first.start("echo later").turn.id);
    world.machine.put_file("old.txt", b"before");
    world.machine.say(turn, "öne\n");
    first.shows(turn, "öne\n");
    world.machine.end(quick, 3);
    came_to(&first.end_of(quick), TurnState::Failed, "");
    came_to(&first.end_of(waiting), TurnState::Completed, "later\n");
    first.hand_over();
    assert_eq!(std::fs::read_dir(world.handovers()).unwrap().count(), 1);
    world.machine.say(turn, "two\n");
    let second = world.process();
    assert_eq!(std::fs::read_dir(world.handovers()).unwrap().count(), 0, "the note is used up");
    second.shows(turn, "öne\ntwo\n");
    // Handed over once more, with nothing said in between.
    second.hand_over();
    let third = world.process();
    world.machine.say(turn, "three\n");
    third.shows(turn, "öne\ntwo\nthree\n");
    world.machine.put_file("new.txt", b"after");
    world.machine.end(turn, 0);
    let view = third.end_of(turn);
    came_to(&view, TurnState::Completed, "öne\ntwo\nthree\n");
    assert_eq!(world.machine.scripts(), ["hold", "hold", "echo later"], "nothing ran twice");
}

#[test]
fn what_was_there_before_a_task_is_remembered_across_a_hand_over() {
    let world = World::new(Machine::adopting());
    let first = world.process();
    let begun = first.start("echo begun").turn.id;
    came_to(&first.end_of(begun), TurnState::Completed, "begun\n");
    world.machine.put_file("old.txt", b"before");
    world.machine.put_file("changed.txt", b"before");
    let mut next = first.request("hold");
    (next.previous, next.agent_id) = (Some(begun), None);
    let turn = first.wait(first.engine.turn_start(&first.caller, next)).unwrap().turn.id;
    first.wait(world.machine.runs(turn));
    first.hand_over();
    world.machine.put_file("changed.txt", b"after");
    world.machine.put_file("new.txt", b"after");
    let second = world.process();
    world.machine.end(turn, 0);
    let view = second.end_of(turn);
    let paths: Vec<&str> = view.artifacts.iter().map(|artifact| artifact.path.as_str()).collect();
    assert_eq!(paths, ["changed.txt", "new.txt"]);
    assert!(view.turn.outcome.excess.is_empty());
}

#[test]
fn a_task_that_was_handed_over_can_be_cancelled() {
    let world = World::new(Machine::adopting());
    let first = world.process();
    let (turn, other) = (first.run("hold"), first.run("hold"));
    world.machine.say(turn, "one\n");
    first.shows(turn, "one\n");
    first.hand_over();
    let second = world.process();
    for turn in [turn, other] {
        second.wait(second.engine.turn_cancel(&second.caller, turn)).unwrap();
    }
    came_to(&second.end_of(turn), TurnState::Cancelled, "one\n");
    came_to(&second.end_of(other), TurnState::Cancelled, "");
}

#[test]
fn a_crash_interrupts_a_task_with_all_that_it_said_and_keeps_its_environment() {
    let world = World::new(Machine::adopting());
    let first = world.process();
    let (turn, over) = (first.run("hold"), first.run("hold"));
    world.machine.say(turn, "one\n");
    first.shows(turn, "one\n");
    first.crash();
    world.machine.say(turn, "two\n");
    world.machine.end(over, 7);
    let second = world.process();
    came_to(&second.end_of(turn), TurnState::Interrupted, "one\ntwo\n");
    let view = second.end_of(over);
    came_to(&view, TurnState::Interrupted, "");
    assert_eq!(view.turn.outcome.exit, Some(ExitStatus::Code(7)), "its end is told of");
    assert_eq!(world.machine.running(), 2);
    // The session goes on in the environment that it had.
    let mut next = second.request("echo again");
    (next.previous, next.agent_id) = (Some(turn), None);
    let next = second.wait(second.engine.turn_start(&second.caller, next)).unwrap();
    came_to(&second.end_of(next.turn.id), TurnState::Completed, "again\n");
    assert_eq!(world.machine.running(), 2);
}

#[test]
fn a_crash_after_a_take_over_interrupts_and_an_old_note_says_nothing() {
    let world = World::new(Machine::adopting());
    let first = world.process();
    let turn = first.run("hold");
    world.machine.say(turn, "one\n");
    first.shows(turn, "one\n");
    first.hand_over();
    let note = std::fs::read_dir(world.handovers()).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read(&note).unwrap();
    world.process().crash();
    std::fs::write(&note, text).unwrap();
    let third = world.process();
    came_to(&third.end_of(turn), TurnState::Interrupted, "one\n");
    assert!(!note.exists());
}

#[test]
fn what_cannot_be_adopted_is_interrupted() {
    let world = World::new(Machine::default());
    let first = world.process();
    let turn = first.run("hold");
    world.machine.say(turn, "one\n");
    first.shows(turn, "one\n");
    first.hand_over();
    let second = world.process();
    came_to(&second.end_of(turn), TurnState::Interrupted, "one\n");
    assert_eq!(std::fs::read_dir(world.handovers()).unwrap().count(), 0);
}
