//! Streams: every event against the schema, numbers without gaps, and the same output as a blocking answer.

use serde_json::{Value, json};
use stead_domain::event::EventKind;
use stead_domain::item::Item;
use stead_domain::turn::{Turn, TurnState};
use stead_engine::TurnView;
use stead_face_uhp::assemble::Assembler;
use stead_face_uhp::wire::response::Response;
use stead_testkit::Samples;

use crate::schema::conforms;

fn message(id: &str, text: &str) -> Item {
    Item::Message { id: id.into(), text: text.into(), complete: true }
}

/// Runs a turn through a stream and gives its events; `items` is what the turn comes to.
fn run(happened: &[EventKind], state: TurnState, items: Vec<Item>, artifacts: &[&str]) -> (Vec<Value>, TurnView) {
    let samples = Samples::new(5);
    let agent = samples.agent();
    let mut session = samples.session(&agent);
    let turn = samples.turn(&mut session, &agent);
    let mut assembler = Assembler::new(turn.clone());
    let admitted = TurnView { turn: turn.clone(), session: session.clone(), artifacts: vec![] };
    let mut events = assembler.begin(&admitted);
    for kind in happened {
        events.extend(assembler.apply(kind));
    }
    let mut turn = Turn { state, ..turn };
    turn.outcome.items = items;
    let artifacts = artifacts.iter().map(|path| samples.artifact(&turn, path)).collect();
    let ended = TurnView { turn, session, artifacts };
    events.extend(assembler.finish(&ended));
    let events: Vec<Value> = events.iter().map(|event| conforms("Event", event)).collect();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], json!(number));
    }
    assert_eq!(events[0]["type"], "response.created");
    assert_eq!(events[0]["response"]["status"], "in_progress");
    let terminal = |event: &&Value| {
        ["response.completed", "response.incomplete", "response.failed"].contains(&event["type"].as_str().unwrap())
    };
    assert_eq!(events.iter().filter(terminal).count(), 1);
    let last = events.last().unwrap();
    assert!(terminal(&last));
    assert_eq!(last["response"], serde_json::to_value(Response::of(&ended)).unwrap());
    let done: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| &event["item"])
        .collect();
    assert_eq!(json!(done), last["response"]["output"], "streamed and blocking output are the same");
    (events, ended)
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap().trim_start_matches("response.")).collect()
}

#[test]
fn a_message_with_a_file() {
    let delta = |text: &str| EventKind::TextDelta { item_id: "1".into(), text: text.into() };
    let happened = [
        EventKind::TurnStarted,
        EventKind::ItemStarted { item: message("1", "") },
        delta("he"),
        delta("llo"),
        EventKind::ItemCompleted { item: message("1", "hello") },
        EventKind::TurnEnded,
    ];
    let (events, _) = run(&happened, TurnState::Completed, vec![message("1", "hello")], &["a.txt"]);
    assert_eq!(
        types(&events),
        [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.annotation.added",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed"
        ]
    );
    assert_eq!(events[7]["text"], "hello");
}

#[test]
fn deltas_that_were_folded_away_are_said_at_once() {
    let happened = [EventKind::ItemCompleted { item: message("1", "hello") }];
    let (events, _) = run(&happened, TurnState::Completed, vec![message("1", "hello")], &[]);
    assert_eq!(events[4]["delta"], "hello");
    let (events, _) = run(&[], TurnState::Completed, vec![message("1", "hello")], &[]);
    assert_eq!(events[4]["delta"], "hello");
}

#[test]
fn a_second_message_ends_the_first_and_carries_the_files() {
    let happened = [
        EventKind::ItemStarted { item: message("1", "") },
        EventKind::TextDelta { item_id: "1".into(), text: "one".into() },
        EventKind::ItemCompleted { item: message("1", "one") },
        EventKind::ItemStarted { item: message("2", "") },
        EventKind::TextDelta { item_id: "2".into(), text: "two".into() },
    ];
    let items = vec![message("1", "one"), message("2", "two")];
    let (events, _) = run(&happened, TurnState::Completed, items, &["a", "b"]);
    let last = &events.last().unwrap()["response"]["output"];
    assert_eq!(last[0]["content"][0]["annotations"], json!([]));
    assert_eq!(last[1]["content"][0]["annotations"].as_array().unwrap().len(), 2);
}

#[test]
fn a_cancelled_turn_keeps_its_output_and_ends_in_failed() {
    let cut = Item::Message { id: "1".into(), text: "hel".into(), complete: false };
    let happened = [EventKind::TextDelta { item_id: "1".into(), text: "hel".into() }];
    let (events, _) = run(&happened, TurnState::Cancelled, vec![cut], &[]);
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.failed"), &json!("cancelled")));
    assert_eq!(last["response"]["output"][0]["status"], "incomplete");
    assert!(last["response"]["error"].is_null());
}

#[test]
fn files_without_a_word_come_with_an_empty_message() {
    let (events, view) = run(&[], TurnState::Completed, vec![], &["a"]);
    assert_eq!(events.last().unwrap()["response"]["output"][0]["content"][0]["text"], "");
    let again = serde_json::to_value(Response::of(&view)).unwrap();
    assert_eq!(again["output"][0]["content"][0]["annotations"].as_array().unwrap().len(), 1);
    let (events, _) = run(&[], TurnState::BudgetReached, vec![], &[]);
    assert_eq!(types(&events), ["created", "in_progress", "incomplete"]);
}

#[test]
fn a_fault_of_the_stream_does_not_end_it() {
    let samples = Samples::new(5);
    let agent = samples.agent();
    let mut session = samples.session(&agent);
    let turn = samples.turn(&mut session, &agent);
    let view = TurnView { turn: turn.clone(), session, artifacts: vec![] };
    let mut assembler = Assembler::new(turn);
    assembler.begin(&view);
    let fault = conforms("Event", &assembler.fault("environment_unavailable", "lost".into())[0]);
    assert_eq!((&fault["type"], &fault["sequence_number"]), (&json!("error"), &json!(2)));
    let gone = conforms("Event", &assembler.abandon(&view)[0]);
    assert_eq!((&gone["type"], &gone["response"]["status"]), (&json!("response.failed"), &json!("cancelled")));
}
