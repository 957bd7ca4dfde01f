//! What every provider that keeps files owes its callers; no test in here knows which one it is.

use std::sync::Arc;

use stead_domain::ports::{Provider, Runtime};
use stead_domain::{EnvironmentId, OperationId, WorkspaceId};

use crate::fixture::{Ids, known, plain, run, script};

/// Runs all of it.
pub(crate) async fn check(provider: &dyn Provider) {
    life_of_an_environment(provider).await;
    repeated_calls(provider).await;
    what_does_not_exist(provider).await;
    two_environments(provider).await;
    commands(provider).await;
    files(provider).await;
}

async fn create(provider: &dyn Provider) -> (EnvironmentId, Arc<dyn Runtime>) {
    let environment = EnvironmentId::new(&Ids);
    let (operation, workspace) = (OperationId::new(&Ids), WorkspaceId::new(&Ids));
    known(provider.create(operation, environment, workspace, &plain()).await).unwrap();
    (environment, provider.link(environment).await.unwrap())
}

async fn delete(provider: &dyn Provider, environment: EnvironmentId) {
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
}

async fn life_of_an_environment(provider: &dyn Provider) {
    let (environment, workspace) = (EnvironmentId::new(&Ids), WorkspaceId::new(&Ids));
    let made_by = OperationId::new(&Ids);
    let handle = known(provider.create(made_by, environment, workspace, &plain()).await).unwrap();
    let seen = provider.inspect(environment).await.unwrap();
    assert!(seen.exists && seen.running);
    assert_eq!((seen.last_operation, seen.handle), (Some(made_by), Some(handle)));

    let runtime = provider.link(environment).await.unwrap();
    let ran = run(&*runtime, "echo hi; id -un; echo kept >/workspace/a; echo too >~agent/b").await;
    assert_eq!((ran.stdout.as_str(), ran.exit.code), ("hi\nagent\n", Some(0)));

    known(provider.stop(OperationId::new(&Ids), environment).await).unwrap();
    let seen = provider.inspect(environment).await.unwrap();
    assert!(seen.exists && !seen.running);
    assert!(provider.link(environment).await.is_err());
    assert!(runtime.exec(script("true")).await.is_err(), "an old link does not lead anywhere");

    let started_by = OperationId::new(&Ids);
    known(provider.start(started_by, environment, workspace, &plain()).await).unwrap();
    assert_eq!(provider.inspect(environment).await.unwrap().last_operation, Some(started_by));
    let runtime = provider.link(environment).await.unwrap();
    assert_eq!(run(&*runtime, "cat /workspace/a ~agent/b").await.stdout, "kept\ntoo\n");

    delete(provider, environment).await;
    let seen = provider.inspect(environment).await.unwrap();
    assert!(!seen.exists && !seen.running && seen.last_operation.is_none());
}

async fn repeated_calls(provider: &dyn Provider) {
    let (environment, workspace) = (EnvironmentId::new(&Ids), WorkspaceId::new(&Ids));
    let operation = OperationId::new(&Ids);
    let spec = plain();
    // At the same time as well as one after the other.
    let (first, second) = tokio::join!(
        provider.create(operation, environment, workspace, &spec),
        provider.create(operation, environment, workspace, &spec)
    );
    let handle = known(first).unwrap();
    assert_eq!(known(second).unwrap(), handle);
    assert_eq!(known(provider.create(operation, environment, workspace, &spec).await).unwrap(), handle);
    let stop = OperationId::new(&Ids);
    for _ in 0..2 {
        known(provider.stop(stop, environment).await).unwrap();
    }
    let start = OperationId::new(&Ids);
    let again = known(provider.start(start, environment, workspace, &spec).await).unwrap();
    assert_ne!(again, handle);
    assert_eq!(known(provider.start(start, environment, workspace, &spec).await).unwrap(), again);
    for _ in 0..2 {
        delete(provider, environment).await;
    }
}

async fn what_does_not_exist(provider: &dyn Provider) {
    let (environment, workspace) = (EnvironmentId::new(&Ids), WorkspaceId::new(&Ids));
    assert!(!provider.inspect(environment).await.unwrap().exists);
    assert!(provider.link(environment).await.is_err());
    known(provider.stop(OperationId::new(&Ids), environment).await).unwrap();
    delete(provider, environment).await;
    let error = known(provider.start(OperationId::new(&Ids), environment, workspace, &plain()).await).unwrap_err();
    assert_eq!((error.code.as_str(), error.permanent), ("environment_lost", true));
}

async fn two_environments(provider: &dyn Provider) {
    let ((one, first), (two, second)) = (create(provider).await, create(provider).await);
    run(&*first, "echo secret >/workspace/mine; echo secret >/tmp/mine; sleep 100 >/dev/null &").await;
    let looks = "ls -A /workspace /tmp ~agent; cat /proc/[0-9]*/cmdline | tr '\\0' ' '";
    let seen = run(&*second, looks).await.stdout;
    assert!(!seen.contains("mine") && !seen.contains("sleep"), "{seen}");
    let own = run(&*first, looks).await.stdout;
    assert!(own.contains("mine") && own.contains("sleep 100"), "{own}");
    first.kill_all().await.unwrap();
    assert!(!run(&*first, looks).await.stdout.contains("sleep 100"));
    delete(provider, one).await;
    assert_eq!(run(&*second, "echo still here").await.stdout, "still here\n");
    delete(provider, two).await;
}

async fn commands(provider: &dyn Provider) {
    use std::time::Duration;
    use stead_domain::ports::{ExecEvent, ExitReason, Program, RuntimeError};
    let (environment, runtime) = create(provider).await;

    let mut request = script("cat; exit 3");
    request.stdin = true;
    let mut exec = runtime.exec(request).await.unwrap();
    exec.write(b"in").await.unwrap();
    exec.close_stdin().await.unwrap();
    let ran = crate::fixture::finish(exec).await;
    assert_eq!((ran.stdout.as_str(), ran.exit.code), ("in", Some(3)));

    let mut request = script("echo early; sleep 100");
    request.time_limit = Some(Duration::from_millis(300));
    let ran = crate::fixture::finish(runtime.exec(request).await.unwrap()).await;
    assert_eq!((ran.stdout.as_str(), ran.exit.reason), ("early\n", ExitReason::TimeLimit));

    let mut request = script("yes");
    request.output_limit = Some(100_000);
    let ran = crate::fixture::finish(runtime.exec(request).await.unwrap()).await;
    assert_eq!(ran.exit.reason, ExitReason::OutputLimit);

    let mut exec = runtime.exec(script("sleep 100")).await.unwrap();
    exec.kill().await.unwrap();
    let ExecEvent::Exited(exit) = exec.next().await.unwrap() else { panic!("no end") };
    assert_eq!(exit.reason, ExitReason::Killed);

    let mut request = script("");
    request.program = Program::Argv(vec!["/no/such/program".to_owned()]);
    assert!(matches!(runtime.exec(request).await.map(drop), Err(RuntimeError::Refused(_))));

    // A command that is given up goes on, however much it says.
    drop(runtime.exec(script("head -c 3000000 /dev/zero; echo done >/workspace/done")).await.unwrap());
    crate::fixture::until("a command that was given up has ended", async || {
        run(&*runtime, "cat /workspace/done 2>/dev/null").await.stdout == "done\n"
    })
    .await;

    // A future that is dropped loses nothing, and a command whose reader rests waits for it.
    let mut exec =
        runtime.exec(script("sleep 0.2; head -c 2000000 /dev/zero; echo end >/workspace/end")).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(20), exec.next()).await.is_err());
    tokio::time::sleep(Duration::from_millis(600)).await;
    let waits = run(&*runtime, "test -e /workspace/end || echo waits").await;
    assert_eq!(waits.stdout, "waits\n", "nobody has read yet");
    assert_eq!(crate::fixture::finish(exec).await.stdout.len(), 2_000_000);
    delete(provider, environment).await;
}

async fn files(provider: &dyn Provider) {
    use stead_domain::ports::RuntimeError;
    let (environment, runtime) = create(provider).await;
    let at = "/workspace";
    runtime.write_file(at, "dir/whole", 0, b"whole", true).await.unwrap();
    runtime.write_file(at, "pieces", 0, b"one ", false).await.unwrap();
    assert!(runtime.read_file(at, "pieces", 0, 10).await.is_err(), "visible before the last piece");
    runtime.write_file(at, "pieces", 4, b"two", true).await.unwrap();
    assert_eq!(runtime.read_file(at, "pieces", 0, 100).await.unwrap(), b"one two");
    assert_eq!(runtime.read_file(at, "pieces", 4, 2).await.unwrap(), b"tw");
    assert!(matches!(runtime.write_file(at, "pieces", 9, b"", true).await, Err(RuntimeError::Refused(_))));

    run(&*runtime, "cd /workspace; ln -s /etc/passwd link; touch $'bad\\xff'; chmod 600 pieces").await;
    assert!(matches!(runtime.read_file(at, "link", 0, 10).await, Err(RuntimeError::Refused(_))));
    let (mut listed, more) = runtime.list_files(at, 100).await.unwrap();
    listed.sort_by(|a, b| a.path.cmp(&b.path));
    let names: Vec<_> = listed.iter().map(|file| (file.path.as_str(), file.exact, file.bytes)).collect();
    assert_eq!(names, [("bad\u{fffd}", false, 0), ("dir/whole", true, 5), ("pieces", true, 7)]);
    assert!(!more);
    let (two, more) = runtime.list_files(at, 2).await.unwrap();
    assert_eq!((two.len(), more), (2, true));

    run(&*runtime, "cd /workspace; touch -r pieces ref; printf 'ONE TWO' >pieces; touch -r ref pieces").await;
    let (changed, _) = runtime.list_files(at, 100).await.unwrap();
    let stamp = |files: &[stead_domain::ports::FileEntry], path: &str| {
        files.iter().find(|file| file.path == path).map(|file| file.stamp.clone())
    };
    assert_ne!(stamp(&listed, "pieces"), stamp(&changed, "pieces"), "a forged time does not hide a change");
    assert_eq!(stamp(&listed, "dir/whole"), stamp(&changed, "dir/whole"));
    delete(provider, environment).await;
}
