//! Bulk removals: all of what they name and nothing beside it.

use stead_domain::changes::{Changes, Removal};
use stead_domain::environment::EnvironmentState;
use stead_domain::event::EventKind;
use stead_domain::ports::Store as _;
use stead_domain::session::Session;
use stead_testkit::{Samples, TestDatabase};

use crate::{columns, commit, texts};

fn delta(text: &str) -> EventKind {
    EventKind::TextDelta { item_id: "item".into(), text: text.into() }
}

async fn deltas_of_one_turn_go_and_their_numbers_stay_unused(database: TestDatabase) {
    let store = database.open().await;
    let samples = Samples::new(1);
    let agent = samples.agent();
    let mut session = samples.session(&agent);
    let turn = samples.turn(&mut session, &agent);
    session.active_turn = None;
    let next = samples.turn(&mut session, &agent);
    let mut changes = Changes::new();
    for (turn, kind) in [
        (&turn, EventKind::TurnCreated),
        (&turn, delta("a")),
        (&turn, delta("b\0c")),
        (&turn, EventKind::TurnEnded),
        (&next, EventKind::TurnCreated),
        (&next, delta("d")),
    ] {
        changes = changes.event(samples.event(&mut session, turn, kind));
    }
    let events = changes.events.clone();
    commit(&store, changes).await;
    assert_eq!(store.events_after(session.id, 0, 100).await.unwrap(), events);

    commit(&store, Changes::new().remove(Removal::Deltas(turn.id))).await;
    let kept = store.events_after(session.id, 0, 100).await.unwrap();
    assert_eq!(kept.iter().map(|event| event.sequence).collect::<Vec<_>>(), [1, 4, 5, 6]);
}

/// A session with something in every table that can hold something of it.
fn full(samples: &Samples) -> (Session, Changes) {
    let agent = samples.agent();
    let mut session = samples.session(&agent);
    let turn = samples.turn(&mut session, &agent);
    let (environment, operation) = samples.environment("node");
    let attachment = samples.attachment(&session, &environment);
    let created = samples.event(&mut session, &turn, EventKind::TurnCreated);
    let text = samples.event(&mut session, &turn, delta("x"));
    let changes = Changes::new()
        .insert(agent)
        .insert(session.clone())
        .insert(environment)
        .insert(operation)
        .insert(attachment)
        .event(created)
        .event(text)
        .fact(samples.artifact(&turn, "out"))
        .fact(samples.idempotency(&turn, &turn.id.to_string()));
    (session, changes.insert(turn))
}

/// The tables in which any column is this text.
async fn mentions(database: &TestDatabase, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for column in columns(database).await.iter().filter(|column| column.contains(" text ")) {
        let (table, column) = column.split_once(' ').unwrap().0.split_once('.').unwrap();
        let sql = format!("SELECT CAST(COUNT(*) AS TEXT) FROM {table} WHERE {column} = '{text}'");
        if texts(database, sql).await[0][0] != "0" {
            found.push(table.to_owned());
        }
    }
    found
}

async fn a_removed_session_leaves_nothing_and_its_neighbour_everything(database: TestDatabase) {
    let store = database.open().await;
    let samples = Samples::new(1);
    let ((session, rows), (neighbour, others)) = (full(&samples), full(&samples));
    commit(&store, rows).await;
    commit(&store, others).await;
    let turn = session.latest_turn.unwrap().to_string();
    let environment = store.attachments_of(session.id).await.unwrap()[0].environment_id;
    let all = ["artifacts", "attachments", "events", "sessions", "turns"];
    assert_eq!(mentions(&database, &session.id.to_string()).await, all);
    let of_turn =
        ["artifacts", "events", "idempotency_records", "idempotency_records", "sessions", "sessions", "turns"];
    assert_eq!(mentions(&database, &turn).await, of_turn);

    commit(&store, Changes::new().remove(Removal::Session(session.id))).await;
    assert_eq!(mentions(&database, &session.id.to_string()).await, [""; 0]);
    assert_eq!(mentions(&database, &turn).await, [""; 0]);
    assert_eq!(mentions(&database, &neighbour.id.to_string()).await, all);
    assert_eq!(mentions(&database, &neighbour.latest_turn.unwrap().to_string()).await, of_turn);
    // What still exists stays, with what was done about it.
    assert_eq!(mentions(&database, &environment.to_string()).await, ["environments", "operations"]);
    // Once more is no fault.
    commit(&store, Changes::new().remove(Removal::Session(session.id))).await;
}

async fn a_removed_session_takes_its_deleted_environment_along(database: TestDatabase) {
    let store = database.open().await;
    let samples = Samples::new(1);
    let ((session, rows), (neighbour, others)) = (full(&samples), full(&samples));
    commit(&store, rows).await;
    commit(&store, others).await;
    for id in [session.id, neighbour.id] {
        let attachment = store.attachments_of(id).await.unwrap().remove(0);
        let mut environment = store.environment_fetch(attachment.environment_id).await.unwrap().unwrap();
        environment.state = EnvironmentState::Deleted;
        commit(&store, Changes::new().update(environment)).await;
    }
    let of = async |session| store.attachments_of(session).await.unwrap()[0].environment_id.to_string();
    let (gone, kept) = (of(session.id).await, of(neighbour.id).await);
    commit(&store, Changes::new().remove(Removal::Session(session.id))).await;
    assert_eq!(mentions(&database, &gone).await, [""; 0]);
    assert_eq!(mentions(&database, &kept).await, ["attachments", "environments", "operations"]);
}

on_both!(
    deltas_of_one_turn_go_and_their_numbers_stay_unused,
    a_removed_session_leaves_nothing_and_its_neighbour_everything,
    a_removed_session_takes_its_deleted_environment_along,
);
