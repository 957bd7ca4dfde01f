//! Every rule that makes a commit a conflict.

use stead_domain::attachment::Attachment;
use stead_domain::changes::{Changes, Fact, Row};
use stead_domain::event::{Event, EventKind};
use stead_domain::ports::Store as _;
use stead_domain::{AttachmentId, TurnId};
use stead_testkit::samples::blob;
use stead_testkit::{Samples, TestDatabase};

use crate::{commit, conflict};

async fn every_taken_name_is_a_conflict(database: TestDatabase) {
    let store = database.open().await;
    let samples = Samples::new(1);
    let agent = samples.agent();
    let mut session = samples.session(&agent);
    let turn = samples.turn(&mut session, &agent);
    let (environment, operation) = samples.environment("node");
    let attachment = samples.attachment(&session, &environment);
    let event = samples.event(&mut session, &turn, EventKind::TurnCreated);
    let (project, build) = samples.build(samples.project("Demo"), "node");
    let key = samples.key("digest");
    let layer = samples.layer(&project, "node", blob(1));
    let (upload, artifact) = (samples.upload(), samples.artifact(&turn, "a"));
    let record = samples.idempotency(&turn, "once");

    let rows: Vec<(Row, &str)> = vec![
        (agent.into(), "agents"),
        (session.into(), "sessions"),
        (turn.clone().into(), "turns"),
        (environment.into(), "environments"),
        (operation.into(), "operations"),
        (attachment.clone().into(), "attachments"),
        (project.clone().into(), "projects"),
        (build.clone().into(), "builds"),
        (key.clone().into(), "api_keys"),
    ];
    let facts: Vec<(Fact, &str)> = vec![
        (samples.workspace().into(), "workspaces"),
        (layer.clone().into(), "layers"),
        (upload.into(), "uploads"),
        (artifact.into(), "artifacts"),
        (record.clone().into(), "idempotency_records"),
    ];
    let everything = rows.iter().fold(Changes::new(), |changes, (row, _)| changes.insert(row.clone()));
    let everything = facts.iter().fold(everything, |changes, (fact, _)| changes.fact(fact.clone()));
    commit(&store, everything.event(event.clone())).await;

    for (row, table) in rows {
        assert_eq!(conflict(&store, Changes::new().insert(row)).await, table, "the id is taken");
    }
    for (fact, table) in facts {
        assert_eq!(conflict(&store, Changes::new().fact(fact)).await, table, "the id is taken");
    }
    assert_eq!(conflict(&store, Changes::new().event(event.clone())).await, "events");
    let mut many = Changes::new();
    for sequence in (1..=5).rev() {
        many = many.event(Event { sequence, ..event.clone() });
    }
    assert_eq!(conflict(&store, many).await, "events", "one of many numbers is taken");

    // Unique beside the id.
    let again = samples.key("digest");
    assert_eq!(conflict(&store, Changes::new().insert(again)).await, "api_keys");
    // Not unique: a fresh build makes a second layer of one key, and the newest is taken.
    let namesake = samples.layer(&project, "node", blob(1));
    commit(&store, Changes::new().fact(namesake.clone())).await;
    let found = store.layer_by_key(project.workspace_id, "node", blob(1)).await.unwrap();
    assert_eq!(found.map(|layer| layer.id), Some(namesake.id.max(layer.id)));
    commit(&store, Changes::new().fact(samples.layer(&project, "other node", blob(1)))).await;
    let (second, _) = samples.environment("node");
    let same_name = Attachment { environment_id: second.id, id: AttachmentId::new(&samples.ids), ..attachment };
    assert_eq!(conflict(&store, Changes::new().insert(same_name)).await, "attachments");
    let mut same_number = turn;
    same_number.id = TurnId::new(&samples.ids);
    assert_eq!(conflict(&store, Changes::new().insert(same_number)).await, "turns");
    let other_scope = samples.idempotency(&store.turns_list(attachment.session_id).await.unwrap()[0], "twice");
    commit(&store, Changes::new().fact(other_scope)).await;
}

async fn a_slug_is_taken_among_projects_that_are_not_deleted(database: TestDatabase) {
    let store = database.open().await;
    let (samples, other) = (Samples::new(1), Samples::new(2));
    let project = samples.project("Demo");
    commit(&store, Changes::new().insert(project.clone()).insert(other.project("Demo"))).await;
    assert_eq!(conflict(&store, Changes::new().insert(samples.project("demo"))).await, "projects");
    let deleted = project.clone().delete(None, samples.at).unwrap();
    let heir = samples.project("demo");
    // In one commit, too: the rows are carried out in the order in which they are given.
    commit(&store, Changes::new().update(deleted.clone()).insert(heir.clone())).await;
    let found = store.project_by_slug(samples.workspace_id, &heir.slug).await.unwrap().unwrap();
    assert_eq!(found.id, heir.id);
    // An update that would take the name back is a conflict as well, not a failure.
    let mut undeleted = deleted;
    undeleted.deleted_at = None;
    undeleted.row_version += 1;
    assert_eq!(conflict(&store, Changes::new().update(undeleted)).await, "projects");
}

async fn a_row_that_has_moved_on_is_a_conflict_and_each_update_raises_the_version(database: TestDatabase) {
    let store = database.open().await;
    let samples = Samples::new(1);
    let agent = samples.agent();
    let mut session = samples.session(&agent);
    let turn = samples.turn(&mut session, &agent);
    let (environment, operation) = samples.environment("node");
    let attachment = samples.attachment(&session, &environment);
    let (project, build) = samples.build(samples.project("Demo"), "node");
    let rows: Vec<(Row, &str)> = vec![
        (agent.clone().into(), "agents"),
        (session.into(), "sessions"),
        (turn.into(), "turns"),
        (environment.into(), "environments"),
        (operation.into(), "operations"),
        (attachment.into(), "attachments"),
        (project.into(), "projects"),
        (build.into(), "builds"),
        (samples.key("digest").into(), "api_keys"),
    ];
    for (row, table) in rows {
        assert_eq!(conflict(&store, Changes::new().update(row.clone())).await, table, "there is no such row");
        commit(&store, Changes::new().insert(row.clone())).await;
        commit(&store, Changes::new().update(row.clone())).await;
        assert_eq!(conflict(&store, Changes::new().update(row)).await, table, "the row has moved on");
    }
    let mut read = store.agent_fetch(samples.workspace_id, agent.id).await.unwrap().unwrap();
    assert_eq!(read.row_version, 2);
    read.name = "renamed".into();
    commit(&store, Changes::new().update(read.clone())).await;
    read.row_version = 3;
    assert_eq!(store.agent_fetch(samples.workspace_id, agent.id).await.unwrap(), Some(read));
}

on_both!(
    every_taken_name_is_a_conflict,
    a_slug_is_taken_among_projects_that_are_not_deleted,
    a_row_that_has_moved_on_is_a_conflict_and_each_update_raises_the_version,
);
