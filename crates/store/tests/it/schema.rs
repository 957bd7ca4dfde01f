//! The schema: the same on both engines, kept over restarts, and refused when it is newer than the binary.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use stead_domain::changes::Changes;
use stead_domain::key::Verb;
use stead_domain::ports::Store as _;
use stead_store::{OpenError, SqlStore, StoreConfig};
use stead_testkit::{ManualClock, Samples, TestDatabase, database};

use crate::{columns, commit, run_sql};

#[tokio::test]
async fn both_engines_end_with_the_same_tables_columns_and_nullability() {
    let Some(postgres) = database::postgres().await else { return };
    let sqlite = database::sqlite();
    sqlite.open().await.close().await;
    let found = columns(&sqlite).await;
    assert_eq!(found, columns(&postgres).await);
    assert!(found.contains("turns.started_at bigint YES") && found.contains("turns.id text NO"), "{found:?}");
}

#[tokio::test]
async fn a_database_file_is_its_owners_alone_and_so_is_its_journal() {
    let database = database::sqlite();
    let store = database.open().await;
    commit(&store, Changes::new().fact(Samples::new(1).workspace())).await;
    let path = database.path().unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let mode = std::fs::metadata(format!("{}{suffix}", path.display())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "stead.db{suffix}");
    }
}

async fn a_newer_schema_is_refused(database: TestDatabase) {
    database.open().await.close().await;
    run_sql(
        &database,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         SELECT 9000, 'later', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1",
    )
    .await;
    let error = SqlStore::open(&StoreConfig::new(database.url()), Arc::new(ManualClock::default())).await.unwrap_err();
    assert!(matches!(error, OpenError::NewerSchema { found: 9000, newest: 5 }), "{error:?}");
    assert!(error.to_string().contains("9000"));
}

async fn a_restart_keeps_everything(database: TestDatabase) {
    let samples = Samples::new(1);
    let (agent, upload) = (samples.agent(), samples.upload());
    let store = database.open().await;
    commit(&store, Changes::new().fact(samples.workspace()).insert(agent.clone()).fact(upload.clone())).await;
    store.close().await;
    assert!(store.commit(Changes::new().insert(samples.agent())).await.is_err(), "a closed store takes nothing");
    assert!(store.workspace_first().await.is_err());

    let store = database.open().await;
    assert_eq!(store.workspace_first().await.unwrap(), Some(samples.workspace()));
    assert_eq!(store.agents_list(samples.workspace_id).await.unwrap(), [agent]);
    assert_eq!(store.upload_fetch(samples.workspace_id, upload.id).await.unwrap(), Some(upload));
}

/// What a database was like before workspaces could be made, with all that may have been in it.
const BEFORE_OPERATORS: &str = r#"
    DELETE FROM _sqlx_migrations WHERE version = 4;
    DROP INDEX workspaces_name;
    UPDATE workspaces SET name = 'default';
    UPDATE api_keys SET verbs = replace(verbs, ',"operator"', '');
"#;

async fn admins_of_the_first_workspace_become_operators(database: TestDatabase) {
    let (one, two) = (Samples::new(1), Samples::new(2));
    let (first, second) = if one.workspace_id < two.workspace_id { (one, two) } else { (two, one) };
    let (admin, mut writer, mut revoked) = (first.key("admin"), first.key("writer"), first.key("revoked"));
    writer.verbs = vec![Verb::Read, Verb::Run, Verb::Write];
    revoked.revoked_at = Some(first.at);
    let stranger = second.key("stranger");
    let store = database.open().await;
    let changes = Changes::new().fact(first.workspace()).fact(second.workspace());
    let changes = changes.insert(admin.clone()).insert(writer.clone()).insert(revoked.clone()).insert(stranger.clone());
    commit(&store, changes).await;
    store.close().await;
    run_sql(&database, BEFORE_OPERATORS).await;

    let store = database.open().await;
    for (key, is_operator) in [(&admin, true), (&writer, false), (&revoked, false), (&stranger, false)] {
        let found = store.key_by_digest(&key.digest).await.unwrap().unwrap();
        let mut expected = key.clone();
        if !is_operator {
            expected.verbs.retain(|&verb| verb != Verb::Operator);
        }
        assert_eq!(found, expected);
    }
    let names: Vec<String> = store.workspaces_list().await.unwrap().into_iter().map(|found| found.name).collect();
    assert_eq!(names, ["default".to_owned(), format!("default {}", second.workspace_id)]);
}

async fn two_servers_may_open_at_once(database: TestDatabase) {
    let (one, two) = tokio::join!(database.open(), database.open());
    let samples = Samples::new(1);
    let agent = samples.agent();
    commit(&one, Changes::new().insert(agent.clone())).await;
    assert_eq!(two.agent_fetch(samples.workspace_id, agent.id).await.unwrap(), Some(agent.clone()));
    commit(&two, Changes::new().update(agent.clone())).await;
    assert_eq!(crate::conflict(&one, Changes::new().update(agent)).await, "agents");
}

on_both!(
    a_newer_schema_is_refused,
    a_restart_keeps_everything,
    admins_of_the_first_workspace_become_operators,
    two_servers_may_open_at_once
);

#[tokio::test]
async fn a_database_that_is_not_there_is_an_error_that_says_where() {
    let url = "sqlite:///nonexistent-directory/stead.db".parse().unwrap();
    let error = SqlStore::open(&StoreConfig::new(url), Arc::new(ManualClock::default())).await.unwrap_err();
    assert!(error.to_string().contains("/nonexistent-directory/stead.db"), "{error}");
}

#[tokio::test]
async fn sqlite_takes_the_time_from_the_clock_it_was_given_and_postgres_from_itself() {
    let clock = Arc::new(ManualClock::default());
    let now = stead_domain::ports::Clock::now(&*clock);
    let samples = Samples::new(1);
    let store = database::sqlite().open_with(Arc::clone(&clock) as _).await;
    assert_eq!(store.now().await.unwrap(), now);
    assert_eq!(store.commit(Changes::new().fact(samples.workspace())).await.unwrap().at, now);

    let Some(postgres) = database::postgres().await else { return };
    let store = postgres.open_with(clock).await;
    let before = store.now().await.unwrap();
    let committed = store.commit(Changes::new().fact(samples.workspace())).await.unwrap().at;
    assert!(now < before && before <= committed && committed <= store.now().await.unwrap());
}
