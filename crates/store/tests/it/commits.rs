//! Commits: all or nothing, many at a time, and never acknowledged without being kept.

use std::sync::Arc;
use std::time::Duration;

use stead_domain::changes::Changes;
use stead_domain::event::EventKind;
use stead_domain::ports::{CommitError, Store as _};
use stead_domain::source::SourceEdit;
use stead_testkit::samples::source_file;
use stead_testkit::{Samples, TestDatabase, database};

use crate::{commit, conflict, run_sql};

async fn a_commit_that_fails_in_its_last_part_leaves_nothing(database: TestDatabase) {
    let store = database.open().await;
    let samples = Samples::new(1);
    let (agent, project) = (samples.agent(), samples.project("p"));
    let mut session = samples.session(&agent);
    let turn = samples.turn(&mut session, &agent);
    let event = samples.event(&mut session, &turn, EventKind::TurnCreated);
    commit(&store, Changes::new().event(event.clone())).await;

    let edit = SourceEdit { written: vec![source_file("a", 1)], ..SourceEdit::default() };
    let all = Changes::new()
        .insert(agent.clone())
        .insert(session.clone())
        .insert(turn.clone())
        .fact(samples.upload())
        .source(project.id, edit)
        .event(event);
    assert_eq!(conflict(&store, all).await, "events");
    let workspace = samples.workspace_id;
    assert_eq!(store.agent_fetch(workspace, agent.id).await.unwrap(), None);
    assert_eq!(store.session_fetch(workspace, session.id).await.unwrap(), None);
    assert_eq!(store.turns_list(session.id).await.unwrap(), []);
    assert_eq!(store.source_list(project.id).await.unwrap(), []);
    assert_eq!(store.events_after(session.id, 0, 10).await.unwrap().len(), 1);
}

async fn two_hundred_at_once_share_their_flushes_and_conflicts_stay_their_own(database: TestDatabase) {
    let store = Arc::new(database.open().await);
    let samples = Arc::new(Samples::new(1));
    let contested = samples.agent();
    commit(&store, Changes::new().insert(contested.clone())).await;
    let before = store.stats();

    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..200_usize {
        let (store, agent, contested) = (Arc::clone(&store), samples.agent(), contested.clone());
        // Every fourth also changes the same version of one row: one of those wins.
        let mut changes = Changes::new().insert(agent.clone());
        if number.is_multiple_of(4) {
            changes = changes.update(contested);
        }
        tasks.spawn(async move { (agent.id, number, store.commit(changes).await) });
    }
    let (mut durable, mut conflicts) = (Vec::new(), 0);
    while let Some(done) = tasks.join_next().await {
        match done.unwrap() {
            (id, _, Ok(_)) => durable.push(id),
            (_, number, Err(CommitError::Conflict("agents"))) if number.is_multiple_of(4) => conflicts += 1,
            (_, number, other) => panic!("commit {number}: {other:?}"),
        }
    }
    assert_eq!((durable.len(), conflicts), (151, 49));
    let mut kept: Vec<_> = store.agents_list(samples.workspace_id).await.unwrap().iter().map(|row| row.id).collect();
    kept.retain(|id| *id != contested.id);
    durable.sort();
    assert_eq!(kept, durable, "what was acknowledged is what there is");
    let stats = store.stats();
    assert_eq!(stats.commits - before.commits, 151);
    assert!(stats.groups - before.groups < 40, "{stats:?}");
    let row = store.agent_fetch(samples.workspace_id, contested.id).await.unwrap().unwrap();
    assert_eq!(row.row_version, contested.row_version + 1);
}

async fn a_statement_that_the_database_refuses_fails_its_own_commit_alone(database: TestDatabase) {
    let store = Arc::new(database.open().await);
    let samples = Samples::new(1);
    run_sql(&database, "DROP TABLE uploads").await;
    let (upload, agent) = (samples.upload(), samples.agent());
    let (bad, good) = tokio::join!(
        store.commit(Changes::new().insert(samples.agent()).fact(upload)),
        store.commit(Changes::new().insert(agent.clone())),
    );
    assert!(matches!(bad, Err(CommitError::Store(_))), "{bad:?}");
    good.unwrap();
    assert_eq!(store.agents_list(samples.workspace_id).await.unwrap(), [agent]);
}

async fn nothing_to_do_is_done(database: TestDatabase) {
    let store = database.open().await;
    commit(&store, Changes::new()).await;
}

on_both!(
    a_commit_that_fails_in_its_last_part_leaves_nothing,
    two_hundred_at_once_share_their_flushes_and_conflicts_stay_their_own,
    a_statement_that_the_database_refuses_fails_its_own_commit_alone,
    nothing_to_do_is_done,
);

/// Another session holds a row's lock, so the group hangs in the middle; then its connection is ended.
#[tokio::test]
async fn when_the_database_dies_in_mid_commit_everybody_waiting_hears_and_the_next_commit_connects_again() {
    use sqlx::{ConnectOptions as _, Connection as _};
    let Some(database) = database::postgres().await else { return };
    let stead_store::DatabaseUrl::Postgres(options) = database.url() else { panic!("a PostgreSQL database") };
    let store = Arc::new(database.open().await);
    let samples = Samples::new(1);
    let agent = samples.agent();
    commit(&store, Changes::new().insert(agent.clone())).await;

    let mut other = options.connect().await.unwrap();
    let mut lock = other.begin().await.unwrap();
    sqlx::query("UPDATE agents SET name = 'locked'").execute(&mut *lock).await.unwrap();

    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (store, changes) = (Arc::clone(&store), Changes::new().insert(samples.agent()).update(agent.clone()));
        tasks.spawn(async move { store.commit(changes).await });
    }
    let blocked = "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    // The first group holds one commit or more; the rest follow in a second one, which blocks as well.
    while !tasks.is_empty() {
        crate::texts(&database, blocked.to_owned()).await;
        while let Ok(Some(done)) = tokio::time::timeout(Duration::from_millis(50), tasks.join_next()).await {
            let outcome = done.unwrap();
            assert!(matches!(outcome, Err(CommitError::Store(_))), "{outcome:?}");
        }
    }
    lock.rollback().await.unwrap();
    assert_eq!(store.agents_list(samples.workspace_id).await.unwrap(), std::slice::from_ref(&agent));
    commit(&store, Changes::new().update(agent)).await;
}

/// What dominates a commit on SQLite is its flush, not its statements.
#[tokio::test]
async fn many_commits_in_a_row_are_quick() {
    let database = database::sqlite();
    let store = database.open().await;
    let samples = Samples::new(1);
    let agent = samples.agent();
    let started = std::time::Instant::now();
    for _ in 0..100 {
        let mut session = samples.session(&agent);
        let turn = samples.turn(&mut session, &agent);
        let (environment, operation) = samples.environment("node");
        let attachment = samples.attachment(&session, &environment);
        let created = samples.event(&mut session, &turn, EventKind::TurnCreated);
        let began = samples.event(&mut session, &turn, EventKind::TurnStarted);
        let changes = Changes::new().insert(session).insert(turn).insert(environment).insert(operation);
        commit(&store, changes.insert(attachment).event(created).event(began)).await;
    }
    let each = started.elapsed() / 100;
    println!("a commit of five rows and two events took {each:?}");
    assert!(each < Duration::from_millis(100), "{each:?}");
}
