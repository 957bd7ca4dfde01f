//! Sandboxes of build steps.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use stead_domain::limit::Reached;
use stead_domain::ports::{
    BuildNetwork, BuildOverlay, BuildSandboxSpec, BuildSandboxes, Mount, MountSource, SandboxLimits,
};
use stead_domain::{ProjectId, WorkspaceId};

use crate::fixture::{Fixture, Ids, Mode, mode, run, service_user, until};

/// A step with a source at `/env/p` and a directory that it writes at `/env/p/.venv`.
pub(crate) fn build(fixture: &Fixture) -> BuildSandboxSpec {
    let source = fixture.directory("build-source");
    fs::create_dir_all(source.join(".venv")).unwrap();
    fs::write(source.join("requirements.txt"), "one\n").unwrap();
    BuildSandboxSpec {
        workspace_id: WorkspaceId::new(&Ids),
        project_id: ProjectId::new(&Ids),
        build: Some(1),
        mounts: vec![Mount { target: "/env/p".into(), source: MountSource::Directory(source) }],
        writable: vec![("/env/p/.venv".into(), fixture.directory("built"))],
        overlay: None,
        network: BuildNetwork::Disabled,
        limits: SandboxLimits {
            memory_bytes: 256 << 20,
            processes: 64,
            cpu_millis: 2000,
            open_files: 256,
            disk_bytes: 16 << 20,
            disk_files: 1000,
        },
        time_limit: Duration::from_mins(1),
    }
}

fn owner(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.mode() & 0o7777)
}

#[tokio::test]
async fn a_build_keeps_what_it_wrote_and_nothing_else() {
    let fixture = Fixture::new();
    let provider = fixture.open();
    let built = fixture.directory("built");
    fs::write(built.join("cached"), "from before").unwrap();
    let sandbox = BuildSandboxes::open(&provider, build(&fixture)).await.unwrap();
    let runtime = sandbox.runtime();
    let text = "cd /env/p/.venv && cat ../requirements.txt && rm cached && mkdir bin && echo x >bin/tool && chmod 6755 bin/tool
        ln -s /etc/shadow link; echo home >~/file && echo ok; echo no >../new; touch /usr/x";
    let mut request = crate::fixture::script(text);
    request.env.insert("HOME".into(), "/home/agent".into());
    let ran = crate::fixture::finish(runtime.exec(request).await.unwrap()).await;
    assert_eq!(ran.stdout, "one\nok\n");
    assert_eq!(ran.stderr.matches("Read-only file system").count(), 2, "{}", ran.stderr);
    assert_eq!(owner(&built.join("bin/tool")).0, fixture.owner(0));
    assert_eq!(sandbox.limits_reached().await, []);
    sandbox.close().await.unwrap();

    assert_eq!(owner(&built), (service_user(), 0o755));
    assert_eq!(owner(&built.join("bin/tool")), (service_user(), 0o755), "owned by the service, no set-id bits");
    assert_eq!(owner(&built.join("link")).0, service_user());
    assert!(!built.join("cached").exists());
    assert!(fixture.leases().is_empty() && fixture.groups().is_empty());
    assert!(fs::symlink_metadata("/etc/shadow").is_ok_and(|shadow| shadow.uid() == 0));
    assert!(runtime.exec(crate::fixture::script("true")).await.is_err());
}

#[tokio::test]
async fn limits_that_end_something_are_named() {
    let fixture = Fixture::new();
    let provider = fixture.open();
    let cases = [
        (Reached::Memory { bytes: 256 << 20 }, "python3 -c 'x = bytearray(400 << 20); print(len(x))'"),
        (Reached::Processes { most: 64 }, "for i in $(seq 200); do sleep 5 & done 2>/dev/null; wait"),
        (Reached::DiskBytes { bytes: 16 << 20 }, "for i in 1 2 3; do head -c 8000000 /dev/zero >/env/p/.venv/$i; done"),
        (Reached::DiskFiles { files: 1000 }, "cd /env/p/.venv; for i in $(seq 1200); do : >$i; done"),
    ];
    for (expected, text) in cases {
        // Where the kernel keeps these for each process alone, a program hears of it and nobody else does at once.
        let softly = matches!(expected, Reached::Memory { .. } | Reached::Processes { .. });
        if mode() == Mode::User && softly {
            continue;
        }
        let sandbox = BuildSandboxes::open(&provider, build(&fixture)).await.unwrap();
        run(&*sandbox.runtime(), text).await;
        assert_eq!(sandbox.limits_reached().await.first(), Some(&expected));
        sandbox.close().await.unwrap();
        let built = fixture.directory("built");
        fs::remove_dir_all(&built).unwrap();
        fs::create_dir(&built).unwrap();
    }
}

#[tokio::test]
async fn a_command_has_a_time_limit_and_a_build_that_is_dropped_is_closed() {
    let fixture = Fixture::new();
    let provider = fixture.open();
    let mut spec = build(&fixture);
    spec.time_limit = Duration::from_millis(300);
    let sandbox = BuildSandboxes::open(&provider, spec).await.unwrap();
    let ran = run(&*sandbox.runtime(), "echo x >/env/p/.venv/x; sleep 20").await;
    assert_eq!(ran.exit.reason, stead_domain::ports::ExitReason::TimeLimit);
    drop(sandbox);
    until("everything is given back", async || fixture.leases().is_empty()).await;
    assert_eq!(owner(&fixture.directory("built").join("x")).0, service_user());
    assert!(fixture.groups().is_empty());

    let mut spec = build(&fixture);
    spec.writable.push(("/x".into(), fixture.scratch.path().join("missing")));
    assert!(BuildSandboxes::open(&provider, spec).await.is_err());
    assert!(fixture.leases().is_empty() && owner(&fixture.directory("built")).0 == service_user());
}

#[tokio::test]
async fn a_step_may_write_over_what_it_was_given() {
    let fixture = Fixture::new();
    let provider = fixture.open();
    let (lower, upper, work) = (fixture.directory("lower"), fixture.directory("upper"), fixture.directory("work"));
    let layer = fixture.directory("layer");
    fs::create_dir_all(lower.join(".venv")).unwrap();
    fs::write(lower.join("changed"), "old\n").unwrap();
    fs::write(lower.join("removed"), "old\n").unwrap();
    fs::write(layer.join("module"), "layer\n").unwrap();
    let mut spec = build(&fixture);
    spec.mounts = vec![Mount { target: "/env/p/.venv".into(), source: MountSource::Directory(layer.clone()) }];
    spec.writable = Vec::new();
    spec.overlay = Some(BuildOverlay {
        target: "/env/p".into(),
        lowers: vec![lower.clone()],
        upper: upper.clone(),
        work: work.clone(),
    });
    for round in 0..2 {
        let sandbox = BuildSandboxes::open(&provider, spec.clone()).await.unwrap();
        let text =
            "cd /env/p && cat .venv/module && echo new >>changed && rm -f removed && mkdir -p made && echo x >made/file
            chmod 4755 made/file; echo x 2>/dev/null >.venv/module || echo sealed";
        let ran = run(&*sandbox.runtime(), text).await;
        assert_eq!(ran.stdout, "layer\nsealed\n", "{round}: {}", ran.stderr);
        assert_eq!(sandbox.limits_reached().await, []);
        sandbox.close().await.unwrap();
    }
    assert_eq!(fs::read_to_string(upper.join("changed")).unwrap(), "old\nnew\nnew\n");
    assert_eq!(fs::read_to_string(lower.join("changed")).unwrap(), "old\n");
    assert_eq!(
        (owner(&upper.join("made/file")), owner(&upper.join("changed")).0),
        ((service_user(), 0o755), service_user())
    );
    assert!(fs::symlink_metadata(upper.join("removed")).unwrap().rdev() == 0 && lower.join("removed").exists());
    assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
    assert!(fixture.leases().is_empty());
}
