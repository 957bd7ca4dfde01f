//! Leases on the machine: user ids of several services, copied directories, one workspace's share, restored databases.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Barrier};

use stead_domain::ports::{BuildSandboxes, Provider, ProviderError};
use stead_domain::{EnvironmentId, OperationId, WorkspaceId};
use stead_outbound::Dialer;
use stead_provider_native::{NativeConfig, NativeProvider, UIDS_PER_SLOT};

use crate::builds::build;
use crate::fixture::{Fixture, Ids, SLOTS, known, plain, run};
use crate::only_for_root;

fn open(config: &NativeConfig) -> Result<NativeProvider, ProviderError> {
    NativeProvider::open(config.clone(), Arc::new(Dialer::system(Vec::new())))
}

/// The same settings for another data directory of another machine's name, with ids to be found.
fn beside(fixture: &Fixture, name: &str) -> NativeConfig {
    let mut config = fixture.config.clone();
    config.data = fixture.scratch.path().join(name);
    config.run = fixture.scratch.path().join(format!("{name}-run"));
    config.node = format!("node-{name}");
    config.cgroup_prefix = format!("{}-{name}", config.cgroup_prefix);
    config.uid_base = None;
    config
}

/// The first id of slot 0, as a data directory remembers it.
fn remembered(data: &Path) -> Option<u32> {
    let text = fs::read_to_string(data.join("environments/place.json")).unwrap();
    let place: serde_json::Value = serde_json::from_str(&text).unwrap();
    place["uid_base"].as_u64().map(|base| base as u32)
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

#[tokio::test]
async fn services_that_start_at_once_get_different_ids_and_keep_them() {
    only_for_root!("one id for all");
    let fixture = Fixture::new();
    let configs: Vec<NativeConfig> = (0..4).map(|number| beside(&fixture, &format!("service{number}"))).collect();
    let barrier = Barrier::new(configs.len());
    std::thread::scope(|scope| {
        for config in &configs {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                open(config).unwrap();
            });
        }
    });
    let mut bases: Vec<u32> = configs.iter().map(|config| remembered(&config.data).unwrap()).collect();
    let [first, second] = [0, 1].map(|index| remembered(&configs[index].data).unwrap());
    bases.sort_unstable();
    assert!(bases.windows(2).all(|pair| pair[1] - pair[0] > SLOTS * UIDS_PER_SLOT), "{bases:?}");

    // A restart finds the same; an environment of it has them.
    let again = configs[0].clone();
    let provider = open(&again).unwrap();
    assert_eq!(remembered(&again.data), Some(first));
    let environment = EnvironmentId::new(&Ids);
    known(provider.create(OperationId::new(&Ids), environment, WorkspaceId::new(&Ids), &plain()).await).unwrap();
    let work = again.data.join("environments").join(environment.hex()).join("work");
    assert_eq!(fs::metadata(&work).unwrap().uid(), first + 1000);

    // Ids of files that exist are not changed, and another service's are not taken.
    let mut moved = again.clone();
    moved.uid_base = Some(second);
    assert_eq!(open(&moved).unwrap_err().code, "user_ids_in_use");
    assert_eq!(notes_of(&fixture, &again.data.canonicalize().unwrap()), 1, "a refusal costs no ids");
    let mut clash = beside(&fixture, "clash");
    clash.slots = 1;
    clash.uid_base = Some(second + UIDS_PER_SLOT);
    let refused = open(&clash).unwrap_err();
    assert_eq!((refused.code.as_str(), refused.permanent), ("user_ids_taken", true));
    assert!(refused.message.contains(configs[1].data.to_str().unwrap()), "{refused}");
    // The last id of one service may be next to the proxy of another: those are two ids.
    let highest = bases[bases.len() - 1];
    clash.uid_base = Some(highest + SLOTS * UIDS_PER_SLOT);
    assert_eq!(open(&clash).unwrap_err().code, "user_ids_taken", "the proxy would have the last id");
    clash.uid_base = Some(highest + SLOTS * UIDS_PER_SLOT + 1);
    open(&clash).unwrap();

    // Whoever's directory is gone has no ids any more.
    let data = configs[1].data.canonicalize().unwrap();
    assert_eq!(notes_of(&fixture, &data), 1);
    fs::remove_dir_all(&configs[1].data).unwrap();
    let mut heir = beside(&fixture, "heir");
    heir.uid_base = Some(second);
    heir.slots = 1;
    open(&heir).unwrap();
    assert_eq!(notes_of(&fixture, &data), 0);
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
    provider.shutdown().await.unwrap();
}

fn notes_of(fixture: &Fixture, data: &Path) -> usize {
    let notes = fs::read_dir(&fixture.config.ranges).unwrap().flatten();
    notes
        .filter(|note| fs::read_to_string(note.path()).unwrap().contains(&format!("{:?}", data.to_str().unwrap())))
        .count()
}

#[tokio::test]
async fn a_copied_data_directory_is_refused_and_a_moved_one_is_not() {
    let fixture = Fixture::new();
    let config = beside(&fixture, "original");
    let provider = open(&config).unwrap();
    let environment = EnvironmentId::new(&Ids);
    known(provider.create(OperationId::new(&Ids), environment, WorkspaceId::new(&Ids), &plain()).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    let before = remembered(&config.data);
    let at = |path: PathBuf| NativeConfig { data: path, ..config.clone() };
    let copied = fixture.scratch.path().join("copied");
    copy(&config.data, &copied);
    let refused = open(&at(copied.clone())).unwrap_err();
    assert_eq!((refused.code.as_str(), refused.permanent), ("data_directory_copied", true));
    assert!(refused.message.contains(config.data.canonicalize().unwrap().to_str().unwrap()), "{refused}");
    assert_eq!(run(&*runtime, "echo still here").await.stdout, "still here\n", "the first one's were not touched");
    provider.shutdown().await.unwrap();
    drop(provider);

    // Another name for the same directory is no copy, and the place to which it was moved is its place from now on.
    let link = fixture.scratch.path().join("link");
    std::os::unix::fs::symlink(&config.data, &link).unwrap();
    open(&at(link)).unwrap();
    let moved = fixture.scratch.path().join("moved");
    fs::rename(&config.data, &moved).unwrap();
    let provider = open(&at(moved.clone())).unwrap();
    assert_eq!(remembered(&moved), before);
    assert!(provider.inspect(environment).await.unwrap().exists);
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
    // Nobody is where the copy came from any more; but what was moved has its ids.
    let second = open(&at(copied));
    match before {
        Some(_) => assert_eq!(second.unwrap_err().code, "user_ids_taken"),
        None => drop(second.unwrap()),
    }
}

#[tokio::test]
async fn one_workspace_has_its_share_of_the_slots() {
    let mut fixture = Fixture::new();
    fixture.config.workspace_slots = None;
    let provider = fixture.open();
    let (greedy, modest) = (WorkspaceId::new(&Ids), WorkspaceId::new(&Ids));
    let create = async |workspace| {
        let environment = EnvironmentId::new(&Ids);
        let created = provider.create(OperationId::new(&Ids), environment, workspace, &plain()).await;
        known(created).map(|_| environment).map_err(|error| (error.code, error.permanent))
    };
    let full = || ("workspace_full".to_owned(), false);
    let first = create(greedy).await.unwrap();
    let mut step = build(&fixture);
    step.workspace_id = greedy;
    let sandbox = BuildSandboxes::open(&provider, step.clone()).await.unwrap();
    assert_eq!(create(greedy).await, Err(full()), "half of four: a session and a build");
    known(provider.stop(OperationId::new(&Ids), first).await).unwrap();
    let refused = BuildSandboxes::open(&provider, step).await.err().map(|error| (error.code, error.permanent));
    assert_eq!(refused, Some(full()), "a stopped session counts");
    let others = [create(modest).await.unwrap(), create(modest).await.unwrap()];
    sandbox.close().await.unwrap();
    let second = create(greedy).await.unwrap();

    // It is told from the disk, whoever started the service.
    provider.shutdown().await.unwrap();
    let again = fixture.open();
    again.sweep(&[first, second, others[0]]).await.unwrap();
    let created = again.create(OperationId::new(&Ids), EnvironmentId::new(&Ids), greedy, &plain()).await;
    assert_eq!(known(created).unwrap_err().code, "workspace_full");
    let created = again.create(OperationId::new(&Ids), EnvironmentId::new(&Ids), modest, &plain()).await;
    known(created).unwrap();
    again.sweep(&[]).await.unwrap();
    again.shutdown().await.unwrap();
}

/// A database that was restored does not know of what was made since, and knows of what is gone.
#[tokio::test]
async fn a_restored_database_gets_no_slot_twice() {
    let fixture = Fixture::new();
    let workspace = WorkspaceId::new(&Ids);
    let (old, gone, orphan) = (EnvironmentId::new(&Ids), EnvironmentId::new(&Ids), EnvironmentId::new(&Ids));
    let provider = fixture.open();
    for environment in [old, gone] {
        known(provider.create(OperationId::new(&Ids), environment, workspace, &plain()).await).unwrap();
    }
    // Here the database is copied. Afterwards one goes, and another one gets its slot.
    known(provider.delete(OperationId::new(&Ids), gone).await).unwrap();
    known(provider.create(OperationId::new(&Ids), orphan, workspace, &plain()).await).unwrap();
    let runtime = provider.link(orphan).await.unwrap();
    run(&*runtime, "echo secret >/workspace/file").await;
    assert!(fixture.leases()["1"].contains(&orphan.to_string()));
    provider.shutdown().await.unwrap();
    drop(provider);

    let provider = fixture.open();
    // Before the sweep the slot of the one that nobody knows is not free, whatever the database says of it.
    let fresh = EnvironmentId::new(&Ids);
    known(provider.create(OperationId::new(&Ids), fresh, workspace, &plain()).await).unwrap();
    assert!(fixture.leases()["2"].contains(&fresh.to_string()));
    provider.sweep(&[old, gone, fresh]).await.unwrap();
    assert_eq!(fixture.leases().keys().collect::<Vec<_>>(), ["0", "2"]);
    assert!(!fixture.config.data.join("environments").join(orphan.hex()).exists());
    let lost = provider.start(OperationId::new(&Ids), gone, workspace, &plain()).await;
    assert_eq!(known(lost).unwrap_err().code, "environment_lost");
    let next = EnvironmentId::new(&Ids);
    known(provider.create(OperationId::new(&Ids), next, workspace, &plain()).await).unwrap();
    assert!(fixture.leases()["1"].contains(&next.to_string()));
    let runtime = provider.link(next).await.unwrap();
    assert_eq!(run(&*runtime, "ls -A /workspace | wc -l").await.stdout, "0\n");
    known(provider.start(OperationId::new(&Ids), old, workspace, &plain()).await).unwrap();
    for environment in [old, fresh, next] {
        known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
    }
    provider.shutdown().await.unwrap();
    assert!(fixture.leases().is_empty() && fixture.groups().is_empty());
}
