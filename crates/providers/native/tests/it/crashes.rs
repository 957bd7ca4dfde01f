//! Ends that nobody asked for.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use sha2::{Digest, Sha256};
use stead_domain::network::NetworkPolicy;
use stead_domain::ports::{BuildSandboxes, Provider, StartSpec};
use stead_domain::{EnvironmentId, OperationId, WorkspaceId};

use crate::builds::build;
use crate::fixture::{Fixture, Ids, known, plain, process, run, script, service_user, until};

/// A runtime of its own for one life of the server; it ends as a killed process does, with nobody told.
fn life<T: Send>(work: impl Future<Output = T> + Send) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

fn is_alive(pid: i32) -> bool {
    stead_sandbox::identity::start_time(pid).is_ok_and(|start| stead_sandbox::identity::is_alive(pid, start))
}

#[test]
fn a_restarted_server_settles_what_was_left() {
    let fixture = Fixture::new();
    let (kept, lost) = (EnvironmentId::new(&Ids), EnvironmentId::new(&Ids));
    let workspace = WorkspaceId::new(&Ids);
    let made_by = OperationId::new(&Ids);
    let pids = life(async {
        let provider = fixture.open();
        let mut pids = Vec::new();
        for environment in [kept, lost] {
            known(provider.create(made_by, environment, workspace, &plain()).await).unwrap();
            let runtime = provider.link(environment).await.unwrap();
            run(&*runtime, "echo before >/workspace/file; setsid sleep 300 >/dev/null 2>&1 &").await;
            pids.push(process(&provider, environment).await);
        }
        let sandbox = BuildSandboxes::open(&provider, build(&fixture)).await.unwrap();
        run(&*sandbox.runtime(), "echo half >/env/p/.venv/half").await;
        // What a killed process leaves: nobody closes it.
        std::mem::forget(sandbox);
        pids
    });
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    // It runs and is owned, and still cannot be taken over: somebody else's word is not the runtime's token.
    let launch = fixture.config.run.join("e0/launch.json");
    let mut written: serde_json::Value = serde_json::from_slice(&fs::read(&launch).unwrap()).unwrap();
    written["token"] = "00".repeat(32).into();
    fs::write(&launch, written.to_string()).unwrap();
    // A create that got no further than its directory, and a lease without anything.
    let unfinished = EnvironmentId::new(&Ids);
    fs::create_dir_all(fixture.config.data.join("environments").join(unfinished.hex()).join("work")).unwrap();
    fs::write(
        fixture.config.data.join("environments/slots/3"),
        format!("{{\"kind\":\"environment\",\"environment\":\"{unfinished}\"}}"),
    )
    .unwrap();

    life(async {
        let provider = fixture.open();
        let swept = provider.sweep(&[kept, unfinished]).await.unwrap();
        assert_eq!((swept.ended, swept.adopted), (2, vec![]));
        assert_eq!(provider.sweep_builds().await.unwrap(), 1);
        assert!(pids.iter().all(|pid| !is_alive(*pid)));
        assert!(fixture.groups().is_empty());
        assert_eq!(fs::read_dir(&fixture.config.run).unwrap().count(), 0);
        assert_eq!(fixture.leases().keys().collect::<Vec<_>>(), ["0"]);
        let half = fixture.directory("built").join("half");
        assert_eq!(fs::metadata(half).unwrap().uid(), service_user(), "what a build wrote is taken back");

        let seen = provider.inspect(kept).await.unwrap();
        assert!(seen.exists && !seen.running && seen.last_operation == Some(made_by));
        assert!(!provider.inspect(lost).await.unwrap().exists && !provider.inspect(unfinished).await.unwrap().exists);
        known(provider.start(OperationId::new(&Ids), kept, workspace, &plain()).await).unwrap();
        let runtime = provider.link(kept).await.unwrap();
        assert_eq!(run(&*runtime, "cat /workspace/file; pgrep sleep").await.stdout, "before\n");
        assert_eq!(provider.sweep(&[kept]).await.unwrap().ended, 0, "what this process runs is no leftover");
        assert_eq!(run(&*runtime, "echo alive").await.stdout, "alive\n");
        known(provider.delete(OperationId::new(&Ids), kept).await).unwrap();
    });
}

/// The machine was started again: no process, no control group, other numbers; on the disk everything is as it was.
#[test]
fn after_the_machine_was_started_again_sessions_are_stopped_and_keep_their_files() {
    let fixture = Fixture::new();
    let (environment, workspace) = (EnvironmentId::new(&Ids), WorkspaceId::new(&Ids));
    let enabled = StartSpec { network: NetworkPolicy::Enabled, ..plain() };
    let pid = life(async {
        let provider = fixture.open();
        known(provider.create(OperationId::new(&Ids), environment, workspace, &enabled).await).unwrap();
        let runtime = provider.link(environment).await.unwrap();
        run(&*runtime, "echo before >/workspace/file").await;
        let sandbox = BuildSandboxes::open(&provider, build(&fixture)).await.unwrap();
        run(&*sandbox.runtime(), "echo half >/env/p/.venv/half").await;
        std::mem::forget(sandbox);
        process(&provider, environment).await
    });
    let build = fs::read(fixture.config.run.join("b1/launch.json")).unwrap();
    let build: serde_json::Value = serde_json::from_slice(&build).unwrap();
    for pid in [pid, build["pid"].as_i64().unwrap() as i32] {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    let manager = fixture.manager();
    for name in manager.list() {
        manager.kill(&name).and_then(|()| manager.remove(&name)).unwrap();
    }
    // By now another process has the number, and was started at the same time after the start of the machine.
    let own = std::process::id() as i32;
    for name in ["e0", "b1"] {
        let launch = fixture.config.run.join(name).join("launch.json");
        let mut written: serde_json::Value = serde_json::from_slice(&fs::read(&launch).unwrap()).unwrap();
        written["boot"] = "00000000-0000-0000-0000-000000000000".into();
        written["pid"] = own.into();
        written["start_time_ticks"] = stead_sandbox::identity::start_time(own).unwrap().into();
        fs::write(&launch, written.to_string()).unwrap();
    }
    life(async {
        let provider = fixture.open();
        let swept = provider.sweep(&[environment]).await.unwrap();
        assert_eq!((swept.ended, swept.adopted), (0, vec![]));
        assert_eq!(provider.sweep_builds().await.unwrap(), 0);
        let seen = provider.inspect(environment).await.unwrap();
        assert!(seen.exists && !seen.running);
        assert_eq!(fixture.leases().keys().collect::<Vec<_>>(), ["0"]);
        assert_eq!(fs::read_dir(&fixture.config.run).unwrap().count(), 0);
        assert!(fixture.groups().is_empty());
        known(provider.start(OperationId::new(&Ids), environment, workspace, &enabled).await).unwrap();
        let runtime = provider.link(environment).await.unwrap();
        assert_eq!(run(&*runtime, "cat /workspace/file").await.stdout, "before\n");
        known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
        provider.shutdown().await.unwrap();
    });
}

#[test]
fn without_a_sweep_a_start_ends_the_old_tree_itself() {
    let fixture = Fixture::new();
    let (environment, workspace) = (EnvironmentId::new(&Ids), WorkspaceId::new(&Ids));
    let pid = life(async {
        let provider = fixture.open();
        known(provider.create(OperationId::new(&Ids), environment, workspace, &plain()).await).unwrap();
        process(&provider, environment).await
    });
    life(async {
        let provider = fixture.open();
        let seen = provider.inspect(environment).await.unwrap();
        assert!(seen.exists && seen.running && provider.link(environment).await.is_err());
        known(provider.start(OperationId::new(&Ids), environment, workspace, &plain()).await).unwrap();
        assert!(!is_alive(pid));
        known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
    });
}

#[tokio::test]
async fn the_death_of_process_1_is_noticed() {
    let fixture = Fixture::new();
    let provider = fixture.open();
    let (environment, workspace) = (EnvironmentId::new(&Ids), WorkspaceId::new(&Ids));
    known(provider.create(OperationId::new(&Ids), environment, workspace, &plain()).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    let mut exec = runtime.exec(script("echo here; sleep 300")).await.unwrap();
    exec.next().await.unwrap();
    let pid = process(&provider, environment).await;
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
    assert!(matches!(exec.next().await, Err(stead_domain::ports::RuntimeError::Lost(_))));
    until("it is seen not to run", async || !provider.inspect(environment).await.unwrap().running).await;
    assert!(fixture.groups().is_empty());
    assert_eq!(fs::read_dir(&fixture.config.run).unwrap().count(), 0);
    assert!(!PathBuf::from(format!("/proc/{pid}")).exists(), "it was reaped");
    known(provider.stop(OperationId::new(&Ids), environment).await).unwrap();
    known(provider.start(OperationId::new(&Ids), environment, workspace, &plain()).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    assert_eq!(run(&*runtime, "echo again").await.stdout, "again\n");
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
}

#[tokio::test]
async fn a_runtime_that_does_not_speak_leaves_nothing() {
    let mut fixture = Fixture::new();
    // The expected program, so nobody asks whether it is a runtime at all.
    let sha256 = Some(Sha256::digest(fs::read("/bin/true").unwrap()).into());
    fixture.config.runtime = stead_provider_native::RuntimeProgram::File { path: "/bin/true".into(), sha256 };
    let provider = fixture.open();
    let environment = EnvironmentId::new(&Ids);
    let outcome = provider.create(OperationId::new(&Ids), environment, WorkspaceId::new(&Ids), &plain()).await;
    assert_eq!(known(outcome).unwrap_err().code, "runtime_silent");
    assert!(!provider.inspect(environment).await.unwrap().exists);
    assert!(fixture.leases().is_empty() && fixture.groups().is_empty());
    assert_eq!(fs::read_dir(&fixture.config.run).unwrap().count(), 0);
}

/// Takes away from an environment's directory what later steps leave.
type Undo = fn(&std::path::Path);

/// Create takes these steps: slot, directories, record, sandbox. Each state in between is made here by taking away what the later
/// steps leave.
#[tokio::test]
async fn a_create_that_was_cut_off_anywhere_is_gone_on_with() {
    let fixture = Fixture::new();
    let workspace = WorkspaceId::new(&Ids);
    let before: [(&str, Undo); 4] = [
        ("no directory", |top| fs::remove_dir_all(top).unwrap()),
        ("half of the directories", |top| {
            fs::remove_file(top.join("record.json")).unwrap();
            fs::remove_dir_all(top.join("home")).unwrap();
        }),
        ("half of a record", |top| {
            fs::rename(top.join("record.json"), top.join(".record.json")).unwrap();
        }),
        ("no sandbox", |_| {}),
    ];
    for (what, undo) in before {
        for swept in [false, true] {
            let (environment, operation) = (EnvironmentId::new(&Ids), OperationId::new(&Ids));
            let provider = fixture.open();
            known(provider.create(operation, environment, workspace, &plain()).await).unwrap();
            provider.shutdown().await.unwrap();
            undo(&fixture.config.data.join("environments").join(environment.hex()));
            let provider = fixture.open();
            if swept {
                provider.sweep(&[environment]).await.unwrap();
                let leases = fixture.leases().len();
                assert_eq!(leases, usize::from(what == "no sandbox"), "{what}: what was never finished is nobody's");
            }
            known(provider.create(operation, environment, workspace, &plain()).await).unwrap();
            let runtime = provider.link(environment).await.unwrap();
            assert_eq!(run(&*runtime, "echo made >/workspace/file; cat /workspace/file").await.stdout, "made\n");
            known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
            assert!(fixture.leases().is_empty() && fixture.groups().is_empty(), "{what}");
            provider.shutdown().await.unwrap();
        }
    }
}
