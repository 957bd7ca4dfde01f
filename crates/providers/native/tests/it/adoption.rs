//! What goes on when the service is killed, and the next one takes it over.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use stead_domain::limit::Limit;
use stead_domain::network::NetworkPolicy;
use stead_domain::ports::{BuildSandboxes, Provider, StartSpec};
use stead_domain::{EnvironmentId, OperationId, WorkspaceId};
use stead_provider_native::{LeftoverKind, Owner};

use crate::builds::build;
use crate::fixture::{Alone, Fixture, Ids, Mode, alone, is_alone, known, mode, plain, process, run, until};
use crate::network::{fetch, site};

fn enabled() -> StartSpec {
    StartSpec { network: NetworkPolicy::Enabled, ..plain() }
}

fn is_alive(pid: i64) -> bool {
    let pid = pid as i32;
    stead_sandbox::identity::start_time(pid).is_ok_and(|start| stead_sandbox::identity::is_alive(pid, start))
}

/// What one process writes for the other.
fn note(fixture: &Fixture) -> PathBuf {
    fixture.scratch.path().join("note")
}

/// Waits for what a service has to say, and kills it.
async fn killed(fixture: &Fixture, mut service: Alone) -> Value {
    until("the service has said what it made", async || note(fixture).exists()).await;
    service.0.kill().unwrap();
    service.0.wait().unwrap();
    serde_json::from_slice(&fs::read(note(fixture)).unwrap()).unwrap()
}

fn say(fixture: &Fixture, what: &Value) {
    let unfinished = fixture.scratch.path().join("unfinished");
    fs::write(&unfinished, what.to_string()).unwrap();
    fs::rename(unfinished, note(fixture)).unwrap();
}

/// The service that is killed: three sessions that do something, and a build.
async fn serve_until_killed(fixture: &Fixture) {
    let provider = fixture.open();
    provider.sweep(&[]).await.unwrap();
    let workspace = WorkspaceId::new(&Ids);
    let mut made = Vec::new();
    for spec in [enabled(), plain(), plain()] {
        let (environment, operation) = (EnvironmentId::new(&Ids), OperationId::new(&Ids));
        known(provider.create(operation, environment, workspace, &spec).await).unwrap();
        let runtime = provider.link(environment).await.unwrap();
        run(&*runtime, "echo before >/workspace/file; setsid sleep 300 >/dev/null 2>&1 &").await;
        made.push(json!({
            "environment": environment.to_string(), "operation": operation.to_string(),
            "pid": process(&provider, environment).await,
        }));
    }
    let sandbox = BuildSandboxes::open(&provider, build(fixture)).await.unwrap();
    run(&*sandbox.runtime(), "echo half >/env/p/.venv/half").await;
    say(fixture, &json!({ "workspace": workspace.to_string(), "made": made }));
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn sessions_of_a_killed_service_go_on() {
    if let Some(told) = is_alone() {
        return serve_until_killed(&Fixture::of(&told)).await;
    }
    let site = site().await;
    let mut fixture = Fixture::new();
    fixture.config.extra_allowed = vec![site];
    let told = killed(&fixture, alone("adoption::sessions_of_a_killed_service_go_on", &fixture.told())).await;
    let workspace: WorkspaceId = told["workspace"].as_str().unwrap().parse().unwrap();
    let of = |index: usize, what: &str| told["made"][index][what].as_str().unwrap().to_owned();
    let environment = |index| of(index, "environment").parse::<EnvironmentId>().unwrap();
    let pid = |index: usize| told["made"][index]["pid"].as_i64().unwrap();
    let (kept, foreign, dead) = (environment(0), environment(1), environment(2));
    assert!((0..3).all(|index| is_alive(pid(index))), "nothing of a session ends with the service");
    // All of it is found, and whose it is.
    let owner = |index| Owner::Environment { environment: environment(index) };
    let slots = fixture.left(LeftoverKind::Slot);
    assert_eq!(slots[..3], [0, 1, 2].map(|slot| (slot.to_string(), owner(slot))));
    assert!(matches!(&slots[3..], [(name, Owner::Build { directories })] if name == "3" && directories.len() == 1));
    let owners = |kind| fixture.left(kind).into_iter().map(|(_, owner)| owner).collect::<Vec<_>>();
    assert_eq!(owners(LeftoverKind::EnvironmentDirectory), [0, 1, 2].map(owner));
    let directories = owners(LeftoverKind::RunDirectory);
    assert!(directories.len() == 4 && (0..3).all(|index| directories.contains(&owner(index))), "{directories:?}");
    let processes = fixture.left(LeftoverKind::Process);
    for index in 0..3 {
        assert!(processes.contains(&(pid(index).to_string(), owner(index))), "{processes:?}");
        let all = processes.iter().filter(|(_, found)| *found == owner(index)).count();
        assert!(all >= 2, "a runtime and what it runs: {processes:?}");
    }
    assert!(processes.iter().any(|(_, owner)| matches!(owner, Owner::Build { .. })), "{processes:?}");
    assert!(processes.iter().all(|(_, owner)| *owner != Owner::Nobody), "{processes:?}");
    let groups = owners(LeftoverKind::ControlGroup);
    assert!(mode() == Mode::User || (0..3).all(|index| groups.contains(&owner(index))), "{groups:?}");
    assert!(fixture.left(LeftoverKind::Mount).is_empty(), "what a sandbox mounts, it alone sees");
    // One of them dies while nobody watches.
    let process_1 = rustix::process::Pid::from_raw(pid(2) as i32).unwrap();
    rustix::process::kill_process(process_1, rustix::process::Signal::KILL).unwrap();
    until("it is dead", async || !is_alive(pid(2))).await;

    // What the next service may reach is not what a running session may: that was decided when it was made.
    let mut config = fixture.config.clone();
    config.extra_allowed.clear();
    let next = Fixture { config, scratch: fixture.borrowed() };
    let provider = next.open();
    let swept = provider.sweep(&[kept, dead]).await.unwrap();
    assert_eq!((swept.ended, swept.adopted), (1, vec![kept]));
    assert_eq!(provider.sweep_builds().await.unwrap(), 1, "no build is taken over");
    assert_eq!([0, 1, 2].map(|index| is_alive(pid(index))), [true, false, false]);
    // An ordinary user has no control groups.
    assert!(fixture.groups().iter().all(|name| name == "e0"), "{:?}", fixture.groups());
    assert!(mode() == Mode::User || !fixture.groups().is_empty());

    let seen = provider.inspect(kept).await.unwrap();
    assert!(seen.exists && seen.running);
    assert_eq!(seen.last_operation.unwrap().to_string(), of(0, "operation"));
    let runtime = provider.link(kept).await.unwrap();
    let ran = run(&*runtime, "cat /workspace/file; pgrep -c sleep").await;
    assert_eq!(ran.stdout, "before\n1\n", "{ran:?}");
    assert_eq!(run(&*runtime, &fetch(&format!("http://{site}/"))).await.stdout, "hello\nrefused\n");
    // It is one like any other: kept when it is what is wanted, bounded, watched.
    let again = OperationId::new(&Ids);
    let handle = known(provider.start(again, kept, workspace, &enabled()).await).unwrap();
    assert!(
        handle.contains(&pid(0).to_string()) && provider.inspect(kept).await.unwrap().last_operation == Some(again)
    );
    provider.limits_noted(kept).await;
    assert!(provider.limits_reached(kept, true).await.is_empty());
    let crowd = "python3 -c 'import os, time
try:
    while os.fork(): pass
except OSError: pass
time.sleep(50)'";
    let crowd = runtime.exec(crate::fixture::script(crowd)).await.unwrap();
    until("it runs into a limit", async || {
        // Who asks all the time keeps those from looking who count for an ordinary user.
        tokio::time::sleep(Duration::from_secs(1)).await;
        provider.limits_reached(kept, false).await.iter().any(|reached| reached.limit() == Limit::Processes)
    })
    .await;
    drop(crowd);
    runtime.kill_all().await.unwrap();
    let process_1 = rustix::process::Pid::from_raw(pid(0) as i32).unwrap();
    rustix::process::kill_process(process_1, rustix::process::Signal::KILL).unwrap();
    until("its end is noticed", async || !provider.inspect(kept).await.unwrap().running).await;
    assert!(fixture.groups().is_empty());
    assert_eq!(fs::read_dir(&fixture.config.run).unwrap().count(), 0);
    for environment in [kept, dead] {
        known(provider.start(OperationId::new(&Ids), environment, workspace, &plain()).await).unwrap();
        let runtime = provider.link(environment).await.unwrap();
        assert_eq!(run(&*runtime, "cat /workspace/file").await.stdout, "before\n");
        known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
    }
    assert!(!provider.inspect(foreign).await.unwrap().exists && fixture.leases().is_empty());
    provider.shutdown().await.unwrap();
    for kind in [LeftoverKind::Process, LeftoverKind::ControlGroup, LeftoverKind::Slot, LeftoverKind::RunDirectory] {
        assert_eq!(fixture.left(kind), []);
    }
}

/// The service that hands over: a session with a download under way, and one request after the other.
async fn serve_and_let_go(fixture: &Fixture) {
    let provider = fixture.open();
    provider.sweep(&[]).await.unwrap();
    let site = fixture.config.extra_allowed[0];
    let (environment, workspace) = (EnvironmentId::new(&Ids), WorkspaceId::new(&Ids));
    known(provider.create(OperationId::new(&Ids), environment, workspace, &enabled()).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    let busy = format!(
        "cd /workspace
        setsid bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; printf \"GET http://{site}/slow HTTP/1.1\\r\\nHost: {site}\\r\\n\\r\\n\" >&3; cat <&3 >slow; echo ended >slow.ended' >/dev/null 2>&1 &
        setsid bash -c 'while [ ! -e enough ]; do exec 3<>/dev/tcp/127.0.0.1/3128; printf \"GET http://{site}/ HTTP/1.1\\r\\nHost: {site}\\r\\nConnection: close\\r\\n\\r\\n\" >&3; tail -1 <&3 >>answers || echo broken >>answers; sleep 0.05; done; echo done >>answers' >/dev/null 2>&1 &
        until grep -qs more slow && grep -qs hello answers; do sleep 0.05; done; echo busy"
    );
    assert_eq!(run(&*runtime, &busy).await.stdout, "busy\n");
    provider.let_go().await;
    say(
        fixture,
        &json!({
            "workspace": workspace.to_string(), "environment": environment.to_string(),
            "pid": process(&provider, environment).await,
        }),
    );
}

#[tokio::test]
async fn a_service_that_hands_over_cuts_no_connection() {
    if let Some(told) = is_alone() {
        return serve_and_let_go(&Fixture::of(&told)).await;
    }
    let site = site().await;
    let mut fixture = Fixture::new();
    fixture.config.extra_allowed = vec![site];
    fixture.config.orphan_grace = Duration::from_secs(15);
    let mut service = alone("adoption::a_service_that_hands_over_cuts_no_connection", &fixture.told());
    // Not by waiting in place: the site is served by this thread.
    until("the service has ended", async || service.0.try_wait().unwrap().is_some()).await;
    assert!(service.0.wait().unwrap().success());
    let told: Value = serde_json::from_slice(&fs::read(note(&fixture)).unwrap()).unwrap();
    let environment: EnvironmentId = told["environment"].as_str().unwrap().parse().unwrap();
    let pid = told["pid"].as_i64().unwrap();
    assert!(is_alive(pid));
    let old_proxies = || fixture.manager().list().into_iter().filter(|name| name.starts_with("egress-")).count();
    assert!(mode() == Mode::User || old_proxies() == 1);

    let provider = fixture.open();
    assert_eq!(provider.sweep(&[environment]).await.unwrap().adopted, [environment]);
    let runtime = provider.link(environment).await.unwrap();
    let size = async || run(&*runtime, "stat -c %s /workspace/slow").await.stdout.trim().parse::<u64>().unwrap();
    let before = size().await;
    until("the download goes on", async || size().await > before + 20).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let ran = run(
        &*runtime,
        "cd /workspace; touch enough; until tail -1 answers | grep -q done; do sleep 0.1; done
        uniq answers; wc -l <answers; ls slow.ended; pkill cat",
    )
    .await;
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[..2], ["hello", "done"], "no request fails meanwhile: {ran:?}");
    assert!(lines[2].parse::<u32>().unwrap() > 10 && lines.len() == 3, "{ran:?}");
    until("the old proxy has ended", async || old_proxies() == 0).await;
    assert!(is_alive(pid));
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
    provider.shutdown().await.unwrap();
    assert!(fixture.manager().list().is_empty());
}
