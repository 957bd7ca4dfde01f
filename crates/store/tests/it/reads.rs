//! Every question of the port: what it finds, in which order, and that it never crosses workspaces.

use stead_domain::build::{BuildEvent, BuildFailure};
use stead_domain::changes::Changes;
use stead_domain::environment::EnvironmentState;
use stead_domain::event::EventKind;
use stead_domain::idempotency::IdempotencyScope;
use stead_domain::key::SecretDigest;
use stead_domain::network::BuildNetworkPolicy;
use stead_domain::operation::OperationState;
use stead_domain::ports::{Page, SessionFilter, Store as _};
use stead_domain::session::Session;
use stead_domain::turn::TurnState;
use stead_domain::workspace::Workspace;
use stead_testkit::samples::blob;
use stead_testkit::{Samples, TestDatabase};

use crate::{commit, conflict};

async fn workspaces_and_keys(database: TestDatabase) {
    let store = database.open().await;
    assert_eq!(store.workspace_first().await.unwrap(), None);
    // The second is older by a moment, though its row comes later.
    let (samples, other) = (Samples::new(1), Samples::new(2));
    let (mine, theirs) = (samples.workspace(), other.workspace());
    let oldest = if mine.id < theirs.id { mine.clone() } else { theirs.clone() };
    commit(&store, Changes::new().fact(mine).fact(theirs.clone())).await;
    assert_eq!(store.workspace_first().await.unwrap(), Some(oldest));
    let same_name = Workspace { name: theirs.name, ..Samples::new(3).workspace() };
    assert_eq!(conflict(&store, Changes::new().fact(same_name)).await, "workspaces");
    assert_eq!(store.workspaces_list().await.unwrap().len(), 2);

    let (first, mut second) = (samples.key("one"), samples.key("two"));
    second.revoked_at = Some(samples.at);
    commit(&store, Changes::new().insert(second.clone()).insert(first.clone()).insert(other.key("three"))).await;
    assert_eq!(store.keys_list(samples.workspace_id).await.unwrap(), [first.clone(), second.clone()]);
    assert_eq!(store.key_by_digest(&first.digest).await.unwrap(), Some(first));
    assert_eq!(store.key_by_digest(&second.digest).await.unwrap(), Some(second), "revoked keys are found");
    assert_eq!(store.key_by_digest(&SecretDigest("four".into())).await.unwrap(), None);
}

async fn projects_builds_and_layers(database: TestDatabase) {
    let store = database.open().await;
    let (samples, other) = (Samples::new(1), Samples::new(2));
    let at = samples.at;
    let bare = samples.project("Bare");
    let (built, first) = samples.build(samples.project("Built"), "node");
    let failed = first.clone().transition(BuildEvent::Failed(BuildFailure::cancelled()), at).unwrap();
    let (built, second) =
        built.admit_build(Some(&failed), blob(8), true, BuildNetworkPolicy::Enabled, "node", at).unwrap();
    let gone = samples.project("Gone").delete(None, at).unwrap();
    let (foreign, foreign_build) = other.build(other.project("Bare"), "other");
    let changes =
        Changes::new().insert(bare.clone()).insert(built.clone()).insert(gone.clone()).insert(foreign.clone());
    commit(&store, changes.insert(second.clone()).insert(failed.clone()).insert(foreign_build.clone())).await;

    let workspace = samples.workspace_id;
    let listed = store.projects_list(workspace).await.unwrap();
    assert_eq!(listed, [(bare.clone(), None), (built.clone(), Some(second.clone()))]);
    assert_eq!(store.project_fetch(workspace, gone.id).await.unwrap(), Some(gone.clone()), "deleted ones are found");
    assert_eq!(store.project_fetch(workspace, foreign.id).await.unwrap(), None);
    assert_eq!(store.project_by_slug(workspace, &bare.slug).await.unwrap(), Some(bare));
    assert_eq!(store.project_by_slug(workspace, &gone.slug).await.unwrap(), None);
    assert_eq!(store.project_by_slug(other.workspace_id, &built.slug).await.unwrap(), None);

    assert_eq!(store.builds_list(built.id).await.unwrap(), [failed.clone(), second.clone()]);
    assert_eq!(store.build_fetch(built.id, 1).await.unwrap(), Some(failed));
    assert_eq!(store.build_fetch(built.id, 3).await.unwrap(), None);
    assert_eq!(store.builds_unended("node").await.unwrap(), [second]);
    assert_eq!(store.builds_unended("other").await.unwrap(), [foreign_build]);

    let layers: Vec<_> = (0..3).map(|number| samples.layer(&built, "node", blob(number))).collect();
    let theirs = other.layer(&foreign, "node", blob(0));
    let changes = layers.iter().fold(Changes::new().fact(theirs.clone()), |changes, layer| changes.fact(layer.clone()));
    commit(&store, changes).await;
    assert_eq!(store.layer_by_key(workspace, "node", blob(0)).await.unwrap(), Some(layers[0].clone()));
    assert_eq!(store.layer_by_key(other.workspace_id, "node", blob(0)).await.unwrap(), Some(theirs));
    assert_eq!(store.layer_by_key(workspace, "other", blob(0)).await.unwrap(), None);
    let mut found = store.layers_fetch(&[layers[2].id, layers[1].id]).await.unwrap();
    found.sort_by_key(|layer| layer.id);
    assert_eq!(found, layers[1..]);
    assert_eq!(store.layers_fetch(&[]).await.unwrap(), []);
}

async fn agents_and_sessions(database: TestDatabase) {
    let store = database.open().await;
    let (samples, other) = (Samples::new(1), Samples::new(2));
    let workspace = samples.workspace_id;
    let project = samples.project("p");
    let (mut one, mut two, mut gone) = (samples.agent(), samples.agent(), samples.agent());
    (one.project_id, gone.project_id) = (Some(project.id), Some(project.id));
    gone.deleted_at = Some(samples.at);
    two.disabled_tools = vec!["bash".into()];
    let mut foreign = other.agent();
    foreign.project_id = Some(project.id);
    let changes = Changes::new().insert(two.clone()).insert(one.clone()).insert(gone.clone()).insert(foreign.clone());
    commit(&store, changes).await;
    assert_eq!(store.agents_list(workspace).await.unwrap(), [one.clone(), two.clone()]);
    assert_eq!(store.agents_of_project(workspace, project.id).await.unwrap(), [one.clone()]);
    assert_eq!(store.agent_fetch(workspace, gone.id).await.unwrap(), Some(gone));
    assert_eq!(store.agent_fetch(workspace, foreign.id).await.unwrap(), None);

    let mut sessions: Vec<Session> = (0..7).map(|n| samples.session(if n % 2 == 0 { &one } else { &two })).collect();
    sessions[3].deleted_at = Some(samples.at);
    let foreign_session = other.session(&foreign);
    let changes = Changes::new().insert(foreign_session.clone());
    commit(&store, sessions.iter().fold(changes, |changes, row| changes.insert(row.clone()))).await;
    assert_eq!(store.session_fetch(workspace, sessions[3].id).await.unwrap(), Some(sessions[3].clone()));
    assert_eq!(store.session_fetch(workspace, foreign_session.id).await.unwrap(), None);

    let page = |indexes: &[usize], more| {
        let rows = indexes.iter().map(|index| sessions[*index].clone()).collect();
        Page { rows, more }
    };
    let list = async |filter| store.sessions_list(workspace, filter).await.unwrap();
    let limit = |limit| SessionFilter { limit, ..SessionFilter::default() };
    assert_eq!(list(limit(4)).await, page(&[6, 5, 4, 2], true));
    assert_eq!(list(SessionFilter { before: Some(sessions[2].id), ..limit(4) }).await, page(&[1, 0], false));
    assert_eq!(list(limit(usize::MAX)).await, page(&[6, 5, 4, 2, 1, 0], false));
    let of_two = SessionFilter { agent_id: Some(two.id), ..limit(2) };
    assert_eq!(list(of_two).await, page(&[5, 1], false), "the deleted one does not count");
    let of_one = SessionFilter { agent_id: Some(one.id), before: Some(sessions[6].id), limit: 2 };
    assert_eq!(list(of_one).await, page(&[4, 2], true));
    assert_eq!(list(SessionFilter { agent_id: Some(foreign.id), ..limit(9) }).await, page(&[], false));
}

async fn turns_events_files_and_retries(database: TestDatabase) {
    let store = database.open().await;
    let (samples, other) = (Samples::new(1), Samples::new(2));
    let workspace = samples.workspace_id;
    let agent = samples.agent();
    let mut session = samples.session(&agent);
    let first = samples.turn(&mut session, &agent);
    session.active_turn = None;
    let second = samples.turn(&mut session, &agent);
    let mut changes = Changes::new().insert(second.clone()).insert(first.clone());
    for _ in 0..12 {
        changes = changes.event(samples.event(&mut session, &first, EventKind::TurnStarted));
    }
    let (upload, artifacts) = (samples.upload(), [samples.artifact(&first, "b"), samples.artifact(&second, "a")]);
    let record = samples.idempotency(&first, "key");
    let changes = changes.fact(upload.clone()).fact(artifacts[1].clone()).fact(artifacts[0].clone());
    commit(&store, changes.fact(record.clone())).await;

    assert_eq!(store.turns_list(session.id).await.unwrap(), [first.clone(), second.clone()]);
    assert_eq!(store.turn_fetch(workspace, first.id).await.unwrap(), Some(first));
    assert_eq!(store.turn_fetch(other.workspace_id, second.id).await.unwrap(), None);
    let numbers = async |after, limit| -> Vec<i64> {
        let events = store.events_after(session.id, after, limit).await.unwrap();
        events.iter().map(|event| event.sequence).collect()
    };
    assert_eq!(numbers(0, 3).await, [1, 2, 3]);
    assert_eq!(numbers(10, usize::MAX).await, [11, 12]);
    assert_eq!(numbers(12, 5).await, [0; 0]);

    assert_eq!(store.upload_fetch(workspace, upload.id).await.unwrap(), Some(upload.clone()));
    assert_eq!(store.upload_fetch(other.workspace_id, upload.id).await.unwrap(), None);
    assert_eq!(store.artifacts_of(session.id).await.unwrap(), artifacts);
    assert_eq!(store.artifact_fetch(workspace, artifacts[0].id).await.unwrap(), Some(artifacts[0].clone()));
    assert_eq!(store.artifact_fetch(other.workspace_id, artifacts[0].id).await.unwrap(), None);
    assert_eq!(store.artifact_fetch(workspace, upload.id).await.unwrap(), None, "an upload is no artifact");

    assert_eq!(store.idempotency_fetch(&record.scope).await.unwrap(), Some(record.clone()));
    for elsewhere in [
        IdempotencyScope { workspace_id: other.workspace_id, ..record.scope.clone() },
        IdempotencyScope { route: "POST /elsewhere", ..record.scope.clone() },
        IdempotencyScope { face: "stead", ..record.scope.clone() },
        IdempotencyScope { key: "other".into(), ..record.scope },
    ] {
        assert_eq!(store.idempotency_fetch(&elsewhere).await.unwrap(), None, "{elsewhere:?}");
    }
}

async fn what_a_machine_has_to_look_after(database: TestDatabase) {
    let store = database.open().await;
    let samples = Samples::new(1);
    let agent = samples.agent();
    let mut changes = Changes::new();
    let (mut turns, mut environments, mut operations, mut deleted) = (vec![], vec![], vec![], vec![]);
    // One session per state of a turn, on two machines by turns.
    for (index, state) in TurnState::ALL.into_iter().cycle().take(16).enumerate() {
        let mut session = samples.session(&agent);
        let mut turn = samples.turn(&mut session, &agent);
        turn.state = state;
        let (mut environment, mut operation) = samples.environment(if index < 8 { "here" } else { "there" });
        environment.state = EnvironmentState::ALL[index % EnvironmentState::ALL.len()];
        operation.state = OperationState::ALL[index % OperationState::ALL.len()];
        if index % 4 == 1 {
            session.deleted_at = Some(samples.at);
        }
        let attachment = samples.attachment(&session, &environment);
        changes = changes.insert(attachment).insert(turn.clone()).insert(session.clone());
        changes = changes.insert(environment.clone()).insert(operation.clone());
        turns.push(turn);
        environments.push(environment);
        operations.push(operation);
        deleted.push(session);
    }
    // Never had an environment: anybody's.
    let mut orphan = samples.session(&agent);
    let homeless = samples.turn(&mut orphan, &agent);
    orphan.deleted_at = Some(samples.at);
    commit(&store, changes.insert(orphan.clone()).insert(homeless)).await;
    deleted.retain(|session| session.deleted_at.is_some());

    assert_eq!(store.turns_unended("here").await.unwrap(), turns[..3]);
    assert_eq!(store.turns_unended("there").await.unwrap(), turns[8..11]);
    assert_eq!(store.turns_unended("nowhere").await.unwrap(), []);
    let here: Vec<_> = environments[..8].iter().filter(|row| row.state != EnvironmentState::Deleted).cloned().collect();
    assert_eq!(store.environments_on("here").await.unwrap(), here);
    assert_eq!(here.len(), 7);
    assert_eq!(store.environment_fetch(environments[6].id).await.unwrap(), Some(environments[6].clone()));
    let open: Vec<_> = operations[..8].iter().filter(|row| !row.state.is_ended()).cloned().collect();
    assert_eq!(store.operations_unended("here").await.unwrap(), open);
    assert_eq!(store.operation_fetch(operations[3].id).await.unwrap(), Some(operations[3].clone()));
    assert_eq!(store.attachments_of(turns[0].session_id).await.unwrap().len(), 1);

    let with_orphan = |sessions: &[Session]| [sessions, std::slice::from_ref(&orphan)].concat();
    assert_eq!(store.sessions_deleted("here").await.unwrap(), with_orphan(&deleted[..2]));
    assert_eq!(store.sessions_deleted("there").await.unwrap(), with_orphan(&deleted[2..]));
}

on_both!(
    workspaces_and_keys,
    projects_builds_and_layers,
    agents_and_sessions,
    turns_events_files_and_retries,
    what_a_machine_has_to_look_after,
);
