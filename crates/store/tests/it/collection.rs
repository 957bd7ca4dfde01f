//! What a collector asks: everything that something names, and nothing that only the deleted named.

use std::collections::BTreeSet;
use std::time::Duration;

use stead_domain::attachment::Pin;
use stead_domain::build::{BuildEvent, BuildFailure};
use stead_domain::changes::{Changes, Removal};
use stead_domain::file::Upload;
use stead_domain::network::BuildNetworkPolicy;
use stead_domain::ports::Store as _;
use stead_domain::source::SourceEdit;
use stead_domain::turn::InputFile;
use stead_domain::{BlobId, ProjectId};
use stead_testkit::samples::{blob, source_directory, source_file};
use stead_testkit::{Samples, TestDatabase};

use crate::commit;

async fn workspaces_in_the_order_of_their_making(database: TestDatabase) {
    let store = database.open().await;
    assert_eq!(store.workspaces_list().await.unwrap(), []);
    let mut both = [Samples::new(1).workspace(), Samples::new(2).workspace()];
    commit(&store, both.iter().fold(Changes::new(), |changes, workspace| changes.fact(workspace.clone()))).await;
    both.sort_by_key(|workspace| workspace.id);
    assert_eq!(store.workspaces_list().await.unwrap(), both);
}

async fn builds_of_living_projects_and_the_blobs_of_their_sources(database: TestDatabase) {
    let store = database.open().await;
    let (samples, other) = (Samples::new(1), Samples::new(2));
    let (living, first) = samples.build(samples.project("living"), "node");
    let first = first.transition(BuildEvent::Failed(BuildFailure::cancelled()), samples.at).unwrap();
    let (living, second) =
        living.admit_build(Some(&first), blob(8), false, BuildNetworkPolicy::Enabled, "elsewhere", samples.at).unwrap();
    let (gone, of_gone) = samples.build(samples.project("gone"), "node");
    let of_gone = of_gone.transition(BuildEvent::Failed(BuildFailure::cancelled()), samples.at).unwrap();
    let gone = gone.delete(Some(&of_gone), samples.at).unwrap();
    let (foreign, of_foreign) = other.build(other.project("foreign"), "node");
    let source = SourceEdit {
        written: vec![source_file("a", 1), source_file("b/a", 1), source_file("c", 2), source_directory("b")],
        ..SourceEdit::default()
    };
    let projects = Changes::new().insert(living.clone()).insert(gone).insert(foreign.clone()).source(living.id, source);
    let builds = [first.clone(), second.clone(), of_gone, of_foreign.clone()];
    commit(&store, builds.into_iter().fold(projects, Changes::insert)).await;

    assert_eq!(store.builds_of_workspace(samples.workspace_id).await.unwrap(), [first, second]);
    assert_eq!(store.builds_of_workspace(other.workspace_id).await.unwrap(), [of_foreign]);
    let blobs: BTreeSet<BlobId> = store.source_blobs(living.id).await.unwrap().into_iter().collect();
    assert_eq!(blobs, BTreeSet::from([blob(1), blob(2)]));
    assert_eq!(store.source_blobs(foreign.id).await.unwrap(), []);
}

async fn layers_go_one_by_one(database: TestDatabase) {
    let store = database.open().await;
    let (samples, other) = (Samples::new(1), Samples::new(2));
    let (project, foreign) = (samples.project("p"), other.project("p"));
    let (one, two) = (samples.layer(&project, "node", blob(1)), samples.layer(&project, "node", blob(1)));
    let elsewhere = samples.layer(&project, "elsewhere", blob(1));
    let theirs = other.layer(&foreign, "node", blob(1));
    let facts = [one.clone(), two.clone(), elsewhere.clone(), theirs.clone()];
    commit(&store, facts.into_iter().fold(Changes::new(), Changes::fact)).await;
    assert_eq!(store.layers_list(samples.workspace_id, "node").await.unwrap(), [one.clone(), two.clone()]);
    assert_eq!(store.layers_list(samples.workspace_id, "elsewhere").await.unwrap(), [elsewhere]);

    for _ in 0..2 {
        // Once more is no fault.
        commit(&store, Changes::new().remove(Removal::Layer(two.id))).await;
        assert_eq!(store.layers_list(samples.workspace_id, "node").await.unwrap(), std::slice::from_ref(&one));
        assert_eq!(store.layer_by_key(samples.workspace_id, "node", blob(1)).await.unwrap(), Some(one.clone()));
    }
    assert_eq!(store.layers_list(other.workspace_id, "node").await.unwrap(), [theirs]);
}

async fn pins_of_living_sessions(database: TestDatabase) {
    let store = database.open().await;
    let (samples, other) = (Samples::new(1), Samples::new(2));
    let pin = |version| Pin { project_id: ProjectId::new(&samples.ids), version };
    let (shared, second, third) = (pin(1), pin(2), pin(3));
    let mut changes = Changes::new();
    for (samples, pins, deleted) in [
        (&samples, vec![shared, second], false),
        (&samples, vec![shared], false),
        (&samples, vec![], false),
        (&samples, vec![third], true),
        (&other, vec![third], false),
    ] {
        let agent = samples.agent();
        let mut session = samples.session(&agent);
        session.deleted_at = deleted.then_some(samples.at);
        let (environment, operation) = samples.environment("node");
        let mut attachment = samples.attachment(&session, &environment);
        attachment.pins = pins;
        changes = changes.insert(agent).insert(session).insert(environment).insert(operation).insert(attachment);
    }
    commit(&store, changes).await;
    let mut held: Vec<u32> =
        store.pins_held(samples.workspace_id).await.unwrap().into_iter().map(|pin| pin.version).collect();
    held.sort_unstable();
    held.dedup();
    assert_eq!(held, [1, 2]);
    assert_eq!(store.pins_held(other.workspace_id).await.unwrap(), [third]);
}

async fn blobs_of_uploads_artifacts_and_inputs(database: TestDatabase) {
    let store = database.open().await;
    let (samples, other) = (Samples::new(1), Samples::new(2));
    let agent = samples.agent();
    let mut session = samples.session(&agent);
    let mut turn = samples.turn(&mut session, &agent);
    let given = |number| InputFile { filename: "\"blob\":".into(), blob: blob(number), bytes: number };
    turn.input.files = vec![given(100), given(101)];
    let artifact = samples.artifact(&turn, "a");
    let mut next = samples.session(&agent);
    let mut plain = samples.turn(&mut next, &agent);
    plain.input.text = format!("{{\"blob\":\"{}\"}}", blob(102));
    let changes = Changes::new().insert(agent).insert(session).insert(turn).insert(next).insert(plain);
    let upload = samples.upload();
    commit(&store, changes.fact(artifact).fact(upload.clone()).fact(other.upload())).await;
    let found: BTreeSet<BlobId> = store.blobs_of_files(samples.workspace_id).await.unwrap().into_iter().collect();
    assert_eq!(found, BTreeSet::from([blob(3), blob(12), blob(100), blob(101)]));
    assert_eq!(store.blobs_of_files(other.workspace_id).await.unwrap(), [blob(12)]);

    // An upload whose contents a task has had is used, and so is none that came later.
    let used = Upload { blob: blob(100), ..samples.upload() };
    let late = Upload { created_at: samples.at.plus(Duration::from_secs(1)), ..samples.upload() };
    commit(&store, Changes::new().fact(used).fact(late.clone())).await;
    let until = samples.at.plus(Duration::from_millis(1));
    assert_eq!(store.uploads_unused(samples.workspace_id, samples.at).await.unwrap(), []);
    let unused = store.uploads_unused(samples.workspace_id, until).await.unwrap();
    assert_eq!(unused.iter().map(|upload| upload.id).collect::<Vec<_>>(), [upload.id]);
    for _ in 0..2 {
        // Once more is no fault.
        commit(&store, Changes::new().remove(Removal::Upload(upload.id))).await;
        assert_eq!(store.upload_fetch(samples.workspace_id, upload.id).await.unwrap(), None);
    }
    assert_eq!(store.upload_fetch(samples.workspace_id, late.id).await.unwrap(), Some(late));
    assert_eq!(store.blobs_of_files(other.workspace_id).await.unwrap(), [blob(12)]);
}

on_both!(
    workspaces_in_the_order_of_their_making,
    builds_of_living_projects_and_the_blobs_of_their_sources,
    layers_go_one_by_one,
    pins_of_living_sessions,
    blobs_of_uploads_artifacts_and_inputs,
);
