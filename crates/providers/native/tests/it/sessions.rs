//! Sessions of the native provider.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use stead_domain::limit::{Limit, Reached};
use stead_domain::network::NetworkPolicy;
use stead_domain::ports::{Mount, MountSource, Outcome, Provider, StartSpec};
use stead_domain::{EnvironmentId, OperationId, WorkspaceId};

use crate::contract;
use crate::fixture::{Fixture, Ids, Mode, SLOTS, known, mode, plain, run, script, until};
use crate::only_for_root;

#[tokio::test]
async fn the_contract_holds() {
    let fixture = Fixture::new();
    let provider = fixture.open();
    contract::check(&provider).await;
    assert!(fixture.groups().is_empty() && fixture.leases().is_empty());
    assert_eq!(fs::read_dir(&fixture.config.run).unwrap().count(), 0);
    let isolation = provider.capabilities().isolation;
    assert!(isolation.contains("softly"), "{isolation}");
}

#[tokio::test]
async fn slots_are_leased_until_the_files_are_gone() {
    let fixture = Fixture::new();
    let provider = fixture.open();
    let workspace = WorkspaceId::new(&Ids);
    let mut environments = Vec::new();
    let mut owners = BTreeSet::new();
    for _ in 0..SLOTS {
        let environment = EnvironmentId::new(&Ids);
        known(provider.create(OperationId::new(&Ids), environment, workspace, &plain()).await).unwrap();
        let work = fixture.config.data.join("environments").join(environment.hex()).join("work");
        let found = fs::metadata(work).unwrap();
        assert_eq!(found.mode() & 0o7777, 0o700);
        owners.insert(found.uid());
        environments.push(environment);
    }
    let expected: BTreeSet<u32> = (0..SLOTS).map(|slot| fixture.owner(slot)).collect();
    assert_eq!(owners, expected);
    known(provider.stop(OperationId::new(&Ids), environments[0]).await).unwrap();
    let late = EnvironmentId::new(&Ids);
    let full = known(provider.create(OperationId::new(&Ids), late, workspace, &plain()).await).unwrap_err();
    assert_eq!((full.code.as_str(), full.permanent), ("native_full", false), "a stopped environment keeps its slot");
    assert!(!provider.inspect(late).await.unwrap().exists);
    known(provider.delete(OperationId::new(&Ids), environments[0]).await).unwrap();
    known(provider.create(OperationId::new(&Ids), late, workspace, &plain()).await).unwrap();

    // A lease that was lost is taken up again from the record before anything can be made.
    provider.shutdown().await.unwrap();
    fs::remove_file(fixture.config.data.join("environments/slots/0")).unwrap();
    drop(provider);
    let provider = fixture.open();
    assert!(fixture.leases()["0"].contains(&late.to_string()));
    assert_eq!(provider.sweep(&[late]).await.unwrap().ended, 0);
    assert_eq!(fixture.leases().len(), 1, "the slots of environments that nobody owns are free");
    assert!(provider.inspect(late).await.unwrap().exists && !provider.inspect(environments[1]).await.unwrap().exists);
    known(provider.delete(OperationId::new(&Ids), late).await).unwrap();
    assert!(fixture.leases().is_empty());
}

#[tokio::test]
async fn versions_are_mounted_read_only_in_order() {
    let fixture = Fixture::new();
    let source = fixture.directory("source");
    fs::create_dir(source.join(".venv")).unwrap();
    fs::write(source.join("main.py"), "print('from the version')").unwrap();
    let (upper, lower) = (fixture.directory("upper"), fixture.directory("lower"));
    fs::write(upper.join("both"), "upper").unwrap();
    fs::write(lower.join("both"), "lower").unwrap();
    fs::write(lower.join("one"), "lower").unwrap();
    let mount = |target: &str, source| Mount { target: target.to_owned(), source };
    let spec = StartSpec {
        mounts: vec![
            mount("/env/site", MountSource::Directory(source)),
            mount("/env/site/.venv", MountSource::Overlay(vec![upper, lower])),
        ],
        network: NetworkPolicy::Disabled,
    };
    let provider = fixture.open();
    let (environment, workspace) = (EnvironmentId::new(&Ids), WorkspaceId::new(&Ids));
    known(provider.create(OperationId::new(&Ids), environment, workspace, &spec).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    let text = "python3 /env/site/main.py; cat /env/site/.venv/both /env/site/.venv/one; echo
        for file in /env/site/new /env/site/main.py /env/site/.venv/both /usr/new /etc/new /new; do
            (echo x >$file) 2>/dev/null && echo wrote $file
        done; rm -f /env/site/main.py 2>/dev/null && echo removed; echo end";
    assert_eq!(run(&*runtime, text).await.stdout, "from the version\nupperlower\nend\n");

    // Another set of mounts makes another sandbox, the same one does not.
    let before = known(provider.start(OperationId::new(&Ids), environment, workspace, &spec).await).unwrap();
    run(&*runtime, "echo kept >/workspace/file").await;
    let after = known(provider.start(OperationId::new(&Ids), environment, workspace, &plain()).await).unwrap();
    let pid = |handle: &str| serde_json::from_str::<serde_json::Value>(handle).unwrap()["pid"].clone();
    assert_ne!(pid(&before), pid(&after));
    let runtime = provider.link(environment).await.unwrap();
    assert_eq!(run(&*runtime, "cat /workspace/file; ls /env 2>&1 | wc -l").await.stdout, "kept\n1\n");

    let mut gone = spec;
    gone.mounts[0].source = MountSource::Directory(fixture.scratch.path().join("nowhere"));
    let error = known(provider.start(OperationId::new(&Ids), environment, workspace, &gone).await).unwrap_err();
    assert_eq!((error.code.as_str(), error.permanent), ("mount_missing", true));
    assert!(!error.message.contains("nowhere"));
    assert!(fixture.groups().is_empty());
    let foreign = provider.start(OperationId::new(&Ids), environment, WorkspaceId::new(&Ids), &plain()).await;
    assert_eq!(known(foreign).unwrap_err().code, "environment_foreign");
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
}

#[tokio::test]
async fn hostile_trees_are_deleted() {
    let fixture = Fixture::new();
    let provider = fixture.open();
    let (environment, workspace) = (EnvironmentId::new(&Ids), WorkspaceId::new(&Ids));
    known(provider.create(OperationId::new(&Ids), environment, workspace, &plain()).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    let text = "cd /workspace && python3 - <<'END'
import os
os.mkdir('many')
for i in range(5000): open('many/%d' % i, 'w').close()
for name in (b'\\xff\\xfe', b'-rf', b'a\\nb', b' ', b'stead-removing-1'): open(name, 'w').close()
os.symlink('/', 'root'); os.symlink('/workspace', 'loop'); os.mkfifo('pipe')
os.mkdir('shut'); open('shut/file', 'w').close(); os.chmod('shut', 0)
for i in range(300): os.mkdir('d'); os.chdir('d')
END
        chmod 0 /workspace ~agent; echo made";
    // So deep a tree counts as too much, and whatever makes it may be ended when that is noticed.
    let made = run(&*runtime, text).await;
    assert!(made.stdout == "made\n" || !provider.limits_reached(environment, true).await.is_empty(), "{made:?}");
    known(provider.stop(OperationId::new(&Ids), environment).await).unwrap();
    known(provider.start(OperationId::new(&Ids), environment, workspace, &plain()).await).unwrap();
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
    assert!(!fixture.config.data.join("environments").join(environment.hex()).exists());
    assert!(fixture.leases().is_empty() && fixture.groups().is_empty());
}

#[tokio::test]
async fn too_much_on_disk_ends_the_processes_and_keeps_the_files() {
    let mut fixture = Fixture::new();
    fixture.config.limits.disk_bytes = 8 << 20;
    let provider = fixture.open();
    let environment = EnvironmentId::new(&Ids);
    known(provider.create(OperationId::new(&Ids), environment, WorkspaceId::new(&Ids), &plain()).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    assert!(provider.limits_reached(environment, true).await.is_empty());
    let one_file = run(&*runtime, "head -c 20000000 /dev/zero >/workspace/one; stat -c %s /workspace/one").await;
    // A little beyond it, so that the look that follows sees why.
    assert_eq!(one_file.stdout, format!("{}\n", 9 << 20), "one file ends at the limit at once");
    let ran = run(&*runtime, "for i in 1 2; do head -c 6000000 /dev/zero >/workspace/$i; done; sleep 50").await;
    assert_eq!(ran.exit.code, None, "{ran:?}");
    until("the limit is noted", async || {
        provider.limits_reached(environment, false).await.iter().any(|reached| reached.limit() == Limit::Disk)
    })
    .await;
    assert_eq!(run(&*runtime, "rm /workspace/*; sleep 3; echo free").await.stdout, "free\n");
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
}

/// The service must be able to record what happens, so what keeps writing when hardly any room is left is ended.
#[tokio::test]
async fn who_writes_on_when_the_disk_is_nearly_full_is_ended() {
    let mut fixture = Fixture::new();
    fixture.config.disk_reserve = u64::MAX;
    let provider = fixture.open();
    let environment = EnvironmentId::new(&Ids);
    known(provider.create(OperationId::new(&Ids), environment, WorkspaceId::new(&Ids), &plain()).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    assert_eq!(run(&*runtime, "head -c 1000000 /dev/zero >/workspace/a; sleep 5; echo on").await.stdout, "on\n");
    let ran =
        run(&*runtime, "for i in 1 2 3 4 5; do head -c 40000000 /dev/zero >/workspace/$i; sleep 2; done; sleep 50")
            .await;
    assert_eq!(ran.exit.code, None, "{ran:?}");
    until("the limit is noted", async || {
        provider.limits_reached(environment, false).await.contains(&Reached::DiskShort { reserve: u64::MAX })
    })
    .await;
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
}

#[tokio::test]
async fn a_kill_for_want_of_memory_is_told_once() {
    only_for_root!("no control group counts kills; see the next test");
    let mut fixture = Fixture::new();
    fixture.config.limits.memory_bytes = 64 << 20;
    let provider = fixture.open();
    let environment = EnvironmentId::new(&Ids);
    known(provider.create(OperationId::new(&Ids), environment, WorkspaceId::new(&Ids), &plain()).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    let ran = run(&*runtime, "/usr/bin/python3 -c 'bytearray(500_000_000)'").await;
    assert_ne!(ran.exit.code, Some(0), "{ran:?}");
    assert_eq!(provider.limits_reached(environment, false).await, [Reached::Memory { bytes: 64 << 20 }]);
    assert!(provider.limits_reached(environment, true).await.is_empty());
    assert_eq!(run(&*runtime, "echo on").await.stdout, "on\n");
}

/// Where no control group counts, what the processes have together is added up from time to time.
#[tokio::test]
async fn memory_and_processes_are_bounded_softly_without_control_groups() {
    if mode() == Mode::Root {
        println!("skipped: root has control groups");
        return;
    }
    let mut fixture = Fixture::new();
    fixture.config.limits.memory_bytes = 96 << 20;
    fixture.config.limits.processes = 24;
    let provider = fixture.open();
    let isolation = provider.capabilities().isolation;
    for part in ["one user id for all", "bounded softly on this machine: memory"] {
        assert!(isolation.contains(part), "{isolation}");
    }
    let environment = EnvironmentId::new(&Ids);
    known(provider.create(OperationId::new(&Ids), environment, WorkspaceId::new(&Ids), &plain()).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    let alone = run(&*runtime, "/usr/bin/python3 -c 'bytearray(500_000_000)' 2>&1 | tail -1").await;
    assert_eq!(alone.stdout, "MemoryError\n", "no process may have more than all together");
    assert!(provider.limits_reached(environment, false).await.is_empty());
    let hold =
        "for i in 1 2 3; do /usr/bin/python3 -c 'import time; x = b\"x\" * 50_000_000; time.sleep(50)' & done; wait";
    let ran = run(&*runtime, hold).await;
    assert_eq!(ran.exit.code, None, "{ran:?}");
    assert_eq!(provider.limits_reached(environment, false).await, [Reached::Memory { bytes: 96 << 20 }]);
    let crowd = runtime.exec(script("for i in $(seq 40); do sleep 50 & done 2>/dev/null; wait")).await.unwrap();
    until("the crowd is noticed", async || {
        provider.limits_reached(environment, false).await == [Reached::Processes { most: 24 }]
    })
    .await;
    drop(crowd);
    runtime.kill_all().await.unwrap();
    assert_eq!(run(&*runtime, "echo on").await.stdout, "on\n");
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
}

/// A file without a name is in no directory, and still on the disk.
#[tokio::test]
async fn files_that_were_removed_while_open_count() {
    let mut fixture = Fixture::new();
    fixture.config.limits.disk_bytes = 8 << 20;
    let provider = fixture.open();
    let environment = EnvironmentId::new(&Ids);
    known(provider.create(OperationId::new(&Ids), environment, WorkspaceId::new(&Ids), &plain()).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    let hidden = "for i in 3 4; do eval \"exec $i<>/workspace/$i\"; rm /workspace/$i; head -c 6000000 /dev/zero >&$i; done; sleep 50";
    let ran = run(&*runtime, hidden).await;
    assert_eq!(ran.exit.code, None, "{ran:?}");
    until("the limit is noted", async || {
        provider.limits_reached(environment, false).await.iter().any(|reached| reached.limit() == Limit::Disk)
    })
    .await;
    // In memory, and charged there.
    let inside = "exec 3<>/tmp/3; rm /tmp/3; head -c 7000000 /dev/zero >&3; exec 4<>/tmp/4; rm /tmp/4; head -c 7000000 /dev/zero >&4
        for i in 1 2 3 4 5 6; do sleep 1; done; echo kept";
    assert_eq!(run(&*runtime, inside).await.stdout, "kept\n");
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
}

/// Prints figures and judges none: the machine is shared.
#[tokio::test]
async fn latency_from_create_to_first_output() {
    let fixture = Fixture::new();
    let provider = fixture.open();
    let mut times: Vec<[Duration; 4]> = Vec::new();
    for _ in 0..20 {
        let (environment, workspace) = (EnvironmentId::new(&Ids), WorkspaceId::new(&Ids));
        let began = Instant::now();
        let created = provider.create(OperationId::new(&Ids), environment, workspace, &plain()).await;
        assert!(matches!(created, Outcome::Known(Ok(_))));
        let made = began.elapsed();
        let runtime = provider.link(environment).await.unwrap();
        assert_eq!(run(&*runtime, "echo hi").await.stdout, "hi\n");
        let spoke = began.elapsed();
        known(provider.stop(OperationId::new(&Ids), environment).await).unwrap();
        let stopped = Instant::now();
        known(provider.start(OperationId::new(&Ids), environment, workspace, &plain()).await).unwrap();
        let started = stopped.elapsed();
        let deleting = Instant::now();
        known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
        times.push([made, spoke, started, deleting.elapsed()]);
    }
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    for (index, what) in ["create", "create to first output", "start", "delete"].into_iter().enumerate() {
        let mut column: Vec<Duration> = times.iter().map(|row| row[index]).collect();
        column.sort_unstable();
        println!("{what}: median {:?}, slowest {:?} (load {})", column[10], column[19], load.trim());
    }
}
