//! Records of what is over: removed when nobody can ask for them, and not before.

use std::time::Duration;

use stead_domain::changes::{Changes, Removal};
use stead_domain::event::EventKind;
use stead_domain::operation::{Operation, OperationKind, OperationState};
use stead_domain::ports::Store as _;
use stead_domain::source::SourceEdit;
use stead_domain::{OperationId, Timestamp};
use stead_store::SqlStore;
use stead_testkit::samples::source_file;
use stead_testkit::{Samples, TestDatabase, rows};

use crate::commit;

async fn removed(store: &SqlStore, removal: Removal) -> u64 {
    store.commit(Changes::new().remove(removal)).await.unwrap().removed
}

async fn operations_go_when_they_have_ended_for_long(database: TestDatabase) {
    let store = database.open().await;
    let samples = Samples::new(1);
    let (mut environment, named) = samples.environment("node");
    let at = |second| Timestamp::default().plus(Duration::from_secs(second));
    let ended = |state: OperationState, finished: u64| Operation {
        id: OperationId::new(&samples.ids),
        state,
        finished_at: Some(at(finished)),
        ..Operation::record(named.id, &environment, OperationKind::Stop, None, samples.at)
    };
    let parked = Operation { state: OperationState::Failed, finished_at: Some(at(1)), ..named.clone() };
    let mut changes = Changes::new().insert(parked.clone());
    let old = [ended(OperationState::Done, 1), ended(OperationState::Failed, 9)];
    let young = ended(OperationState::Done, 10);
    let open = Operation { finished_at: None, ..ended(OperationState::Uncertain, 1) };
    for operation in old.iter().chain([&young, &open]) {
        changes = changes.insert(operation.clone());
    }
    environment.operation_id = Some(parked.id);
    commit(&store, changes.insert(environment)).await;
    assert_eq!(removed(&store, Removal::Operations(at(10))).await, 2);
    for (operation, stays) in [(&old[0], false), (&old[1], false), (&young, true), (&open, true), (&parked, true)] {
        assert_eq!(store.operation_fetch(operation.id).await.unwrap().is_some(), stays, "{operation:?}");
    }
    assert_eq!(removed(&store, Removal::Operations(at(10))).await, 0);
}

async fn a_deleted_agent_goes_when_no_session_names_it(database: TestDatabase) {
    let store = database.open().await;
    let samples = Samples::new(1);
    let at = |second| Timestamp::default().plus(Duration::from_secs(second));
    let mut changes = Changes::new();
    let mut agents = Vec::new();
    // Deleted and when, and whether a session names it: a living one or a deleted one.
    for (deleted, session) in
        [(None, None), (Some(1), None), (Some(10), None), (Some(1), Some(None)), (Some(1), Some(Some(at(2))))]
    {
        let mut agent = samples.agent();
        agent.deleted_at = deleted.map(at);
        if let Some(deleted) = session {
            let mut session = samples.session(&agent);
            session.deleted_at = deleted;
            changes = changes.insert(session);
        }
        changes = changes.insert(agent.clone());
        agents.push(agent);
    }
    commit(&store, changes).await;
    assert_eq!(removed(&store, Removal::Agents(at(10))).await, 1);
    for (number, agent) in agents.iter().enumerate() {
        let found = store.agent_fetch(samples.workspace_id, agent.id).await.unwrap();
        assert_eq!(found.is_some(), number != 1, "agent {number}");
    }
}

async fn a_deleted_project_goes_last_and_only_where_it_was_built(database: TestDatabase) {
    let store = database.open().await;
    let samples = Samples::new(1);
    let (project, here) = samples.build(samples.project("one"), "here");
    let (mut project, there) = samples.build(project, "there");
    let source = || SourceEdit { written: vec![source_file("a", 1)], ..SourceEdit::default() };
    let (living, stays) = samples.build(samples.project("two"), "here");
    let mut empty = samples.project("three");
    empty.deleted_at = Some(samples.at);
    let changes =
        Changes::new().insert(here.clone()).insert(there.clone()).insert(living.clone()).insert(stays.clone());
    let changes = changes.source(project.id, source()).source(living.id, source());
    commit(&store, changes.insert(project.clone()).insert(empty.clone())).await;
    let all = rows::counts(&database).await;

    // Of a project that is not deleted nothing goes.
    for removal in [Removal::Build(living.id, stays.number), Removal::Project(living.id)] {
        assert_eq!(removed(&store, removal).await, 0, "{removal:?}");
    }
    assert_eq!(store.projects_deleted("here", 10).await.unwrap(), std::slice::from_ref(&empty));
    project.deleted_at = Some(samples.at);
    commit(&store, Changes::new().update(project.clone())).await;
    let listed = async |node| {
        let projects = store.projects_deleted(node, 10).await.unwrap();
        projects.into_iter().map(|project| project.id).collect::<Vec<_>>()
    };
    assert_eq!(listed("here").await, [project.id, empty.id]);
    assert_eq!(listed("nowhere").await, [empty.id]);
    assert_eq!(store.projects_deleted("here", 1).await.unwrap().len(), 1);
    assert_eq!(removed(&store, Removal::Project(empty.id)).await, 1);

    assert_eq!(removed(&store, Removal::Build(project.id, here.number)).await, 1);
    assert_eq!(removed(&store, Removal::Project(project.id)).await, 0, "there is a build elsewhere");
    assert_eq!((listed("here").await, listed("there").await), (vec![], vec![project.id]));
    assert_eq!(removed(&store, Removal::Build(project.id, there.number)).await, 1);
    assert_eq!(removed(&store, Removal::Project(project.id)).await, 0, "there is a part of its source");
    assert_eq!(removed(&store, Removal::Source(project.id)).await, 1);
    assert_eq!(listed("anywhere").await, [project.id]);
    assert_eq!(removed(&store, Removal::Project(project.id)).await, 1);
    let left = rows::counts(&database).await;
    assert_eq!((all["projects"] - left["projects"], all["builds"] - left["builds"]), (2, 2));
    assert_eq!(all["source_entries"] - left["source_entries"], 1);
}

async fn many_events_go_some_at_a_time(database: TestDatabase) {
    let store = database.open().await;
    let samples = Samples::new(1);
    let agent = samples.agent();
    let (mut session, mut other) = (samples.session(&agent), samples.session(&agent));
    let (turn, others) = (samples.turn(&mut session, &agent), samples.turn(&mut other, &agent));
    let mut changes = Changes::new().event(samples.event(&mut other, &others, EventKind::TurnCreated));
    for _ in 0..Removal::BATCH + 2 {
        changes = changes.event(samples.event(&mut session, &turn, EventKind::TurnCreated));
    }
    commit(&store, changes).await;
    assert_eq!(removed(&store, Removal::Events(session.id)).await, Removal::BATCH);
    let left = store.events_after(session.id, 0, 10).await.unwrap();
    assert_eq!(left.iter().map(|event| event.sequence).collect::<Vec<_>>(), [1001, 1002], "the oldest go first");
    assert_eq!(removed(&store, Removal::Events(session.id)).await, 2);
    assert_eq!(store.events_after(other.id, 0, 10).await.unwrap().len(), 1);
}

on_both!(
    operations_go_when_they_have_ended_for_long,
    a_deleted_agent_goes_when_no_session_names_it,
    a_deleted_project_goes_last_and_only_where_it_was_built,
    many_events_go_some_at_a_time,
);
