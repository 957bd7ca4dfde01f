//! Databases of earlier schemas, as text in `tests/fixtures/<engine>/<schema>.sql`: each opens, is brought up to date, says what it
//! said before, and can be written.
//!
//! A release that ends with a new schema adds the one it ends with: `sqlite3 stead.db .dump`, and `pg_dump --inserts --no-owner
//! --no-privileges` without its comments and `search_path`, of a database that holds rows of every kind. What a fixture holds is never
//! edited: it is what earlier servers wrote, the checksums of their migrations included.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::Duration;

use include_dir::{Dir, include_dir};
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use stead_domain::build::{BuildState, PlacedLayer};
use stead_domain::changes::Changes;
use stead_domain::environment::{Certainty, EnvironmentState};
use stead_domain::event::EventKind;
use stead_domain::idempotency::IdempotencyScope;
use stead_domain::item::Item;
use stead_domain::key::{SecretDigest, Verb};
use stead_domain::operation::OperationState;
use stead_domain::ports::{SessionFilter, Store as _};
use stead_domain::source::EntryKind;
use stead_domain::turn::{ExitStatus, TurnState};
use stead_domain::{AgentId, EnvironmentId, FileId, LayerId, OperationId, ProjectId, SessionId, TurnId, WorkspaceId};
use stead_store::{DatabaseUrl, SqlStore};
use stead_testkit::TestDatabase;

use crate::{columns, commit};

static FIXTURES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/tests/fixtures");
const NODE: &str = "node-01a229ad476473bdbd9dcb2bb44d26a5";

/// The id of that number, as the fixtures have them.
fn id<T: FromStr>(prefix: &str, number: u32) -> T
where
    T::Err: std::fmt::Debug,
{
    format!("{prefix}_01a229ad48c77{number:03x}ab0382fb8668{number:04x}").parse().unwrap()
}

/// The fixtures of a database's engine: each schema's number with its text, oldest first.
fn fixtures(database: &TestDatabase) -> Vec<(i64, &'static str)> {
    let engine = match database.url() {
        DatabaseUrl::Sqlite(_) => "sqlite",
        DatabaseUrl::Postgres(_) => "postgres",
    };
    let files = FIXTURES.get_dir(engine).unwrap().files();
    let named = |name: &str| name.strip_suffix(".sql").unwrap().parse().unwrap();
    let mut found: Vec<(i64, &str)> = files
        .map(|file| (named(file.path().file_name().unwrap().to_str().unwrap()), file.contents_utf8().unwrap()))
        .collect();
    found.sort_unstable();
    assert_eq!(
        found.iter().map(|(schema, _)| *schema).collect::<Vec<_>>(),
        (1..=found.len() as i64).collect::<Vec<_>>()
    );
    assert!(found.len() >= 4);
    found
}

/// Makes an empty database what the fixture says.
async fn load(database: &TestDatabase, text: &'static str) {
    match database.url() {
        DatabaseUrl::Sqlite(path) => {
            let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).create_if_missing(true);
            let mut connection = options.connect().await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
            sqlx::Connection::close(connection).await.unwrap();
        }
        DatabaseUrl::Postgres(options) => {
            let mut connection = options.connect().await.unwrap();
            sqlx::raw_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public").execute(&mut connection).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
        }
    }
}

/// Every noun, as the fixtures hold them all.
async fn says_what_it_said(store: &SqlStore, schema: i64) {
    let ws: WorkspaceId = id("ws", 1);
    let workspaces = store.workspaces_list().await.unwrap();
    let names: BTreeSet<&str> = workspaces.iter().map(|workspace| workspace.name.as_str()).collect();
    assert_eq!((workspaces.len(), names.len()), (2, 2), "two workspaces with names of their own: {names:?}");
    assert_eq!(store.workspace_first().await.unwrap().unwrap().name, "default");

    let keys = store.keys_list(ws).await.unwrap();
    assert_eq!(keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["first admin key", "runner"]);
    assert_eq!(keys[0].verbs, Verb::ALL, "who could do everything still can");
    assert_eq!(keys[1].verbs, [Verb::Read, Verb::Run]);
    let digest: SecretDigest = keys[0].digest.clone();
    assert_eq!(store.key_by_digest(&digest).await.unwrap().as_ref(), Some(&keys[0]));
    assert!(store.keys_list(id("ws", 2)).await.unwrap()[0].revoked_at.is_some());

    let (project, gone): (ProjectId, ProjectId) = (id("henv", 0x10), id("henv", 0x11));
    let listed = store.projects_list(ws).await.unwrap();
    let (found, latest) = &listed[0];
    assert_eq!((listed.len(), found.id, latest.as_ref().unwrap().number), (1, project, 2));
    assert_eq!(found.description, "größer 'quoted'\nline two");
    assert_eq!((found.active, found.source.files, found.source_revision), (Some(1), 2, 3));
    let declared: Vec<String> = found.declared.pip.iter().map(ToString::to_string).collect();
    assert_eq!(declared, if schema < 2 { vec![] } else { vec!["six==1.17.0".to_owned()] });
    let network = found.build_network.as_ref().map(ToString::to_string);
    assert_eq!(network.as_deref(), (schema >= 3).then_some("restricted files.example index.example"));
    assert!(store.project_fetch(ws, gone).await.unwrap().unwrap().deleted_at.is_some());

    let source = store.source_list(project).await.unwrap();
    let files: Vec<_> = source.iter().map(|entry| (entry.path.as_str(), entry.kind.clone())).collect();
    assert_eq!(files.iter().map(|(path, _)| *path).collect::<Vec<_>>(), ["setup.sh", "src", "src/main.py"]);
    assert!(matches!(files[0].1, EntryKind::File { executable: true, size: 9, .. }), "{files:?}");

    let builds = store.builds_list(project).await.unwrap();
    assert_eq!(builds.iter().map(|build| build.state).collect::<Vec<_>>(), [BuildState::Ready, BuildState::Failed]);
    let version = builds[0].version.as_ref().unwrap();
    let layer: LayerId = id("layer", 0x60);
    assert_eq!(version.layers, [PlacedLayer { target: ".venv".into(), layers: vec![layer] }]);
    assert_eq!((version.removed_at, version.packages[0].name.as_str()), (None, "six"));
    assert!(builds[1].failure.as_ref().unwrap().message.contains("exit status 2"));
    assert_eq!(store.layers_list(ws, NODE).await.unwrap()[0].id, layer);

    let agent = store.agent_fetch(ws, id::<AgentId>("agent", 0x20)).await.unwrap().unwrap();
    assert_eq!((agent.max_step, agent.time_limit), (Some(7), Some(Duration::from_secs(90))));
    let network = agent.network.as_ref().map(ToString::to_string);
    assert_eq!(network.as_deref(), (schema >= 3).then_some("restricted api.example"));

    let session: SessionId = id("hsess", 0x30);
    let page = store.sessions_list(ws, SessionFilter { limit: 10, ..SessionFilter::default() }).await.unwrap();
    assert_eq!((page.rows.len(), page.rows[0].id, page.rows[0].turns), (1, session, 3));
    assert_eq!(store.sessions_deleted(NODE).await.unwrap()[0].id, id::<SessionId>("hsess", 0x31));
    let turns = store.turns_list(session).await.unwrap();
    assert_eq!(
        turns.iter().map(|turn| turn.state).collect::<Vec<_>>(),
        [TurnState::Completed, TurnState::Failed, TurnState::InProgress]
    );
    let done = &turns[0];
    assert!(matches!(&done.outcome.items[0], Item::Message { text, complete: true, .. } if text == "hello\n"));
    assert_eq!((done.outcome.exit, done.reads.unwrap().version), (Some(ExitStatus::Code(0)), 1));
    assert_eq!((done.input.files[0].filename.as_str(), done.ignored_fields.len()), ("data.csv", 1));
    assert_eq!((turns[1].outcome.excess[0].path.as_str(), turns[1].outcome.omitted_bytes), ("big.bin", 4));
    assert_eq!(store.turns_unended(NODE).await.unwrap(), [turns[2].clone()], "with its environment's machine");
    let killed = store.turns_list(id("hsess", 0x31)).await.unwrap().remove(0);
    assert_eq!((killed.outcome.exit, killed.store), (Some(ExitStatus::Signal(9)), false));
    let events = store.events_after(session, 0, 100).await.unwrap();
    assert_eq!((events.len(), events[6].sequence), (7, 7));
    assert!(matches!(events[3].kind, EventKind::ItemCompleted { .. }), "{:?}", events[3]);

    let environments = store.environments_on(NODE).await.unwrap();
    assert_eq!(
        environments.iter().map(|environment| environment.state).collect::<Vec<_>>(),
        [EnvironmentState::Ready, EnvironmentState::Deleting]
    );
    assert_eq!(environments[1].failure.as_ref().unwrap().certainty, Certainty::Unknown);
    assert_eq!(store.environment_fetch(id::<EnvironmentId>("env", 0x50)).await.unwrap().as_ref(), environments.first());
    assert_eq!(store.attachments_of(session).await.unwrap()[0].pins[0].project_id, project);
    assert_eq!(store.pins_held(ws).await.unwrap().len(), 1);
    let operations = store.operations_unended(NODE).await.unwrap();
    assert_eq!((operations.len(), operations[0].state), (1, OperationState::Uncertain));
    let first = store.operation_fetch(id::<OperationId>("op", 0x70)).await.unwrap().unwrap();
    assert!(first.spec.unwrap().contains("/env/hello-world"));

    let upload = store.upload_fetch(ws, id::<FileId>("file", 1)).await.unwrap().unwrap();
    assert_eq!(upload.filename, "data.csv");
    assert_eq!(store.artifacts_of(session).await.unwrap()[0].path, "out/résumé.txt");
    assert_eq!(store.blobs_of_files(ws).await.unwrap().into_iter().collect::<BTreeSet<_>>().len(), 2);
    let scope = IdempotencyScope { face: "uhp", workspace_id: ws, route: "POST /v1/responses", key: "once".to_owned() };
    assert_eq!(store.idempotency_fetch(&scope).await.unwrap().unwrap().turn_id, id::<TurnId>("turn", 0x40));
    assert_eq!(store.audit_list(None, None, 10).await.unwrap().rows, []);
}

/// What was read can be written.
async fn takes_changes(store: &SqlStore) {
    let ws: WorkspaceId = id("ws", 1);
    let session = store.session_fetch(ws, id("hsess", 0x30)).await.unwrap().unwrap();
    let turns = store.turns_list(session.id).await.unwrap();
    let mut changes = Changes::new().update(session);
    for turn in turns {
        changes = changes.update(turn);
    }
    for (project, build) in store.projects_list(ws).await.unwrap() {
        changes = changes.update(project).update(build.unwrap());
    }
    for agent in store.agents_list(ws).await.unwrap() {
        changes = changes.update(agent);
    }
    for environment in store.environments_on(NODE).await.unwrap() {
        changes = changes.update(environment);
    }
    for operation in store.operations_unended(NODE).await.unwrap() {
        changes = changes.update(operation);
    }
    for key in store.keys_list(ws).await.unwrap() {
        changes = changes.update(key);
    }
    commit(store, changes).await;
}

async fn every_earlier_database_is_brought_up_to_date(
    fresh: TestDatabase,
    mut empty: impl AsyncFnMut() -> TestDatabase,
) {
    fresh.open().await.close().await;
    let newest = columns(&fresh).await;
    for (schema, text) in fixtures(&fresh) {
        let database = empty().await;
        load(&database, text).await;
        assert_ne!(columns(&database).await, newest, "the fixture of schema {schema} is no earlier one");
        assert_eq!(stead_store::check(&database.url()).await.unwrap(), [id("ws", 1), id("ws", 2)]);
        // Twice: the second time there is nothing to do.
        for _ in 0..2 {
            let store = database.open().await;
            says_what_it_said(&store, schema).await;
            store.close().await;
        }
        assert_eq!(columns(&database).await, newest, "schema {schema}");
        let store = database.open().await;
        takes_changes(&store).await;
        says_what_it_said(&store, schema).await;
        store.close().await;
    }
}

#[tokio::test]
async fn every_earlier_sqlite_database_is_brought_up_to_date() {
    let empty = async || stead_testkit::database::sqlite();
    every_earlier_database_is_brought_up_to_date(empty().await, empty).await;
}

#[tokio::test]
async fn every_earlier_postgresql_database_is_brought_up_to_date() {
    let Some(fresh) = stead_testkit::database::postgres().await else { return };
    let empty = async || stead_testkit::database::postgres().await.unwrap();
    every_earlier_database_is_brought_up_to_date(fresh, empty).await;
}
