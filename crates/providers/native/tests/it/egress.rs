//! The egress proxy's process: who it is, what it can do, and what its end means.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use stead_domain::network::NetworkPolicy;
use stead_domain::ports::{Provider, StartSpec};
use stead_domain::{EnvironmentId, OperationId, WorkspaceId};
use stead_provider_native::NativeProvider;

use crate::fixture::{Fixture, Ids, alone, finish, is_alone, known, plain, run, script, until};
use crate::network::{fetch, site};
use crate::only_for_root;

/// The proxies that a process has started.
fn proxies(parent: u32) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
        let (line, status) = (read("cmdline"), String::from_utf8_lossy(&read("status")).into_owned());
        if line.starts_with(b"stead-egress\0") && status.contains(&format!("\nPPid:\t{parent}\n")) {
            found.push(pid);
        }
    }
    found
}

/// Needed to raise a hard limit.
const CAP_SYS_RESOURCE: u64 = 1 << 24;

/// The capabilities of this process.
fn rights() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap()
}

fn hard_open_files(limits: &str) -> u64 {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap_or(u64::MAX)
}

fn proxy() -> i32 {
    let [pid] = proxies(std::process::id())[..] else { panic!("not one proxy for one service") };
    pid
}

async fn enabled(provider: &NativeProvider) -> EnvironmentId {
    let environment = EnvironmentId::new(&Ids);
    let spec = StartSpec { network: NetworkPolicy::Enabled, ..plain() };
    known(provider.create(OperationId::new(&Ids), environment, WorkspaceId::new(&Ids), &spec).await).unwrap();
    environment
}

#[tokio::test]
async fn the_proxy_is_nobody_and_reads_nothing_of_the_service() {
    only_for_root!("the proxy has a user of its own");
    let fixture = Fixture::new();
    let provider = fixture.open();
    provider.sweep(&[]).await.unwrap();
    let members = fixture.manager().pids("egress").unwrap();
    let [pid] = members[..] else { panic!("one process in the proxy's group: {members:?}") };
    let status = || fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    until("it has confined itself", async || status().contains("Seccomp:\t2\n")).await;
    let status = status();
    let uid = fixture.uid_base() - 1;
    for line in [
        format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}"),
        format!("Gid:\t{uid}\t{uid}\t{uid}\t{uid}"),
        "Groups:\t ".to_owned(),
        "CapPrm:\t0000000000000000".to_owned(),
        "CapEff:\t0000000000000000".to_owned(),
        "CapBnd:\t0000000000000000".to_owned(),
        "NoNewPrivs:\t1".to_owned(),
        "Seccomp:\t2".to_owned(),
    ] {
        assert!(status.lines().any(|found| found == line), "{line:?} is not in {status}");
    }
    // Not dumpable: what it is belongs to root, so that not even its own user may look into it.
    assert_eq!(fs::metadata(format!("/proc/{pid}/mem")).unwrap().uid(), 0);
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    assert!(limits.lines().any(|line| line.starts_with("Max core file size") && line.contains(" 1 ")), "{limits}");
    // More than the service itself may have, where it may give that.
    let own = fs::read_to_string("/proc/self/limits").unwrap();
    let may_raise = rights() & CAP_SYS_RESOURCE != 0;
    let expected = if may_raise { 65_536 } else { hard_open_files(&own).min(65_536) };
    assert_eq!(hard_open_files(&limits), expected);
    assert_eq!(fs::read(format!("/proc/{pid}/environ")).unwrap_or_default(), b"");

    // Whoever has its user reads none of the service's directories; the proxy itself cannot even run what this runs.
    let data = &fixture.config.data;
    let secret = data.join("environments/place.json");
    assert!(secret.exists());
    fs::set_permissions(fixture.scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for path in [secret.as_path(), fixture.config.run.as_path(), Path::new("/root")] {
        let seen = Command::new("setpriv")
            .args([&format!("--reuid={uid}"), &format!("--regid={uid}"), "--clear-groups", "ls"])
            .arg(path)
            .output()
            .unwrap();
        assert!(!seen.status.success(), "{} was read", path.display());
    }
    provider.shutdown().await.unwrap();
}

/// A download breaks, and the session goes on with the next proxy.
#[tokio::test]
async fn a_killed_proxy_is_replaced() {
    if is_alone().is_none() {
        assert!(alone("egress::a_killed_proxy_is_replaced", "").0.wait().unwrap().success());
        return;
    }
    let site = site().await;
    let mut fixture = Fixture::new();
    fixture.config.extra_allowed = vec![site];
    let provider = fixture.open();
    let environment = enabled(&provider).await;
    let runtime = provider.link(environment).await.unwrap();
    let url = format!("http://{site}/");
    assert_eq!(run(&*runtime, &fetch(&url)).await.stdout, "hello\nrefused\n");

    let slow = format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET http://{site}/slow HTTP/1.1\\r\\nHost: {site}\\r\\n\\r\\n' >&3
        while read -r line <&3; do case $line in more*) echo begun >/workspace/begun;; esac; done; echo broken"
    );
    let download = runtime.exec(script(&slow)).await.unwrap();
    until("the download has begun", async || {
        run(&*runtime, "cat /workspace/begun 2>/dev/null").await.stdout == "begun\n"
    })
    .await;
    for _ in 0..2 {
        let before = proxy();
        let pid = rustix::process::Pid::from_raw(before).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        // At once: a request that comes while there is no proxy waits for the next one.
        assert_eq!(run(&*runtime, &fetch(&url)).await.stdout, "hello\nrefused\n");
        assert_ne!(proxy(), before);
    }
    assert_eq!(finish(download).await.stdout, "broken\n");
    // And so does a session that is made afterwards, while the closed one's socket is gone.
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
    let environment = enabled(&provider).await;
    let runtime = provider.link(environment).await.unwrap();
    assert_eq!(run(&*runtime, &fetch(&url)).await.stdout, "hello\nrefused\n");

    // One that does not answer is ended when the next socket is handed to it; the sockets that it had go on.
    let before = proxy();
    let pid = rustix::process::Pid::from_raw(before).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let another = enabled(&provider).await;
    assert_ne!(proxy(), before);
    for environment in [environment, another] {
        let runtime = provider.link(environment).await.unwrap();
        assert_eq!(run(&*runtime, &fetch(&url)).await.stdout, "hello\nrefused\n");
        known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
    }

    let pid = proxy();
    provider.shutdown().await.unwrap();
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "nothing is left after a shutdown");
    assert!(fixture.manager().list().is_empty());
}

/// The service is killed as a crash would end it: not told, and with nobody left to tell the proxy.
#[tokio::test]
async fn a_proxy_ends_with_its_service() {
    if is_alone().is_some() {
        let fixture = Fixture::new();
        let provider = fixture.open();
        provider.sweep(&[]).await.unwrap();
        tokio::time::sleep(Duration::from_mins(10)).await;
        return;
    }
    let mut service = alone("egress::a_proxy_ends_with_its_service", "");
    let id = service.0.id();
    until("the service has a proxy", async || proxies(id).len() == 1).await;
    let pid = proxies(id)[0];
    service.0.kill().unwrap();
    service.0.wait().unwrap();
    until("the proxy has ended", async || !Path::new(&format!("/proc/{pid}")).exists()).await;
}
