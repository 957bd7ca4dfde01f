//! What a command gets and gives.

use std::time::{Duration, Instant};

use stead_link::{ErrorCode, ExecEvent, ExecSpec, ExitReason, StdinMode};

use crate::runtime::{PLENTY, Runtime, running, script};

/// C060: the call ends with the main process, though children hold its output open.
#[tokio::test]
async fn a_background_child_does_not_hold_the_call() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let began = Instant::now();
    let exec = client.exec(script(include_bytes!("../../../../tests/field-cases/C060-bg.sh"))).await.unwrap();
    let outcome = exec.collect(PLENTY).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(outcome.stdout, b"foreground-done\n");
    assert_eq!((outcome.exit.code, outcome.exit.reason), (Some(0), ExitReason::Exited));
    assert_eq!(running(&["sleep 120.601", "sleep 121.602"]).len(), 2, "the children live on");
    assert_eq!(client.kill_all().await.unwrap(), 0);
    assert!(running(&["sleep 120.601", "sleep 121.602"]).is_empty());
}

/// A child in the background goes on writing after the call without dying of it.
#[tokio::test]
async fn a_background_child_may_go_on_writing() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let mark = format!("{}/alive", runtime.root());
    let text = format!("(for i in $(seq 20); do head -c 20000 /dev/zero; sleep 0.05; done; echo > {mark}) &");
    client.exec(script(text)).await.unwrap().collect(PLENTY).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !std::path::Path::new(&mark).exists() {
        assert!(Instant::now() < deadline, "the child died of its output");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// C061: reading standard input ends at once.
#[tokio::test]
async fn standard_input_is_empty_by_default() {
    let runtime = Runtime::start();
    let began = Instant::now();
    let exec = runtime.client().await.exec(script(include_bytes!("../../../../tests/field-cases/C061-stdin.sh"))).await;
    let outcome = exec.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!(outcome.stdout, b"after-cat\neof\n0\n");
    assert_eq!(outcome.exit.code, Some(0));
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// C063: bytes are exact, whatever they are and however they are cut.
#[tokio::test]
async fn bytes_are_exact() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let binary = client.exec(script(include_bytes!("../../../../tests/field-cases/C063-binary.sh"))).await.unwrap();
    let expected: Vec<u8> = (0..=255).collect::<Vec<u8>>().repeat(64);
    assert_eq!(binary.collect(PLENTY).await.unwrap().stdout, expected);
    let split = client.exec(script(include_bytes!("../../../../tests/field-cases/C063-split.sh"))).await.unwrap();
    let text = String::from_utf8(split.collect(PLENTY).await.unwrap().stdout).unwrap();
    assert_eq!(text, format!("\u{20ac}\u{1f600}\n{}\n", "\u{2500}".repeat(100_000)));
}

#[tokio::test]
async fn the_environment_is_exact_and_nothing_else_is_inherited() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let mut spec = ExecSpec::argv(["/usr/bin/env", "-0"], "/");
    for (name, value) in
        [("PEM", "-----\nYWJj\n"), ("QUOTES", "a\"b'c`d"), ("EMPTY", ""), ("EQ", "k=v=w"), ("CR", "a\r\nb")]
    {
        spec.env.insert(name.to_owned(), value.to_owned());
    }
    let mut expected = String::new();
    for (name, value) in &spec.env {
        expected.extend([name, "=", value, "\0"]);
    }
    let outcome = client.exec(spec).await.unwrap().collect(PLENTY).await.unwrap();
    let mut seen: Vec<&[u8]> = outcome.stdout.split_inclusive(|byte| *byte == 0).collect();
    seen.sort_unstable();
    assert_eq!(String::from_utf8(seen.concat()).unwrap(), expected);
    let descriptors = client.exec(ExecSpec::argv(["/bin/ls", "/proc/self/fd"], "/")).await.unwrap();
    // The fourth is the directory that ls reads.
    assert_eq!(descriptors.collect(PLENTY).await.unwrap().stdout, b"0\n1\n2\n3\n");
    let group =
        client.exec(script("echo $(($(ps -o pgid= -p $$)-$$)); pwd; head -c 30 /proc/$$/cmdline | tr '\\0' ' '")).await;
    let text = String::from_utf8(group.unwrap().collect(PLENTY).await.unwrap().stdout).unwrap();
    assert_eq!(text, "0\n/\n/bin/bash -c -- echo $(($(ps -");
}

#[tokio::test]
async fn a_script_is_called_bash_and_a_long_one_is_a_file() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    for (text, said) in [
        ("no-such-program".to_owned(), "bash: line 1: no-such-program"),
        ("-x".to_owned(), "bash: line 1: -x"),
        (format!("#{}\necho $0", "x".repeat(100_000)), "/proc/self/fd/60"),
    ] {
        let outcome = client.exec(script(&text)).await.unwrap().collect(PLENTY).await.unwrap();
        let all = [outcome.stdout, outcome.stderr].concat();
        let all = String::from_utf8(all).unwrap();
        assert!(all.starts_with(said), "{all}");
    }
}

#[tokio::test]
async fn standard_input_arrives_whole_and_ends() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let spec = ExecSpec { stdin: StdinMode::Open, ..script("sha256sum; echo done >&2; exit 7") };
    let exec = client.exec(spec).await.unwrap();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    exec.stdin(&bytes).await.unwrap();
    exec.close_stdin().unwrap();
    let outcome = exec.collect(PLENTY).await.unwrap();
    let file = runtime.folder.path().join("same");
    std::fs::write(&file, &bytes).unwrap();
    let expected = std::process::Command::new("sha256sum").stdin(std::fs::File::open(file).unwrap()).output().unwrap();
    assert_eq!(outcome.stdout, expected.stdout);
    assert_eq!((outcome.stderr.as_slice(), outcome.exit.code), (&b"done\n"[..], Some(7)));
}

#[tokio::test]
async fn signals_reach_the_group_and_are_reported() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let mut exec =
        client.exec(script("trap 'echo caught; exit 3' USR1; echo ready; sleep 987.701 & wait")).await.unwrap();
    assert!(matches!(exec.next().await.unwrap(), Some(ExecEvent::Started { pid }) if pid > 1));
    assert_eq!(exec.next().await.unwrap(), Some(ExecEvent::Stdout("ready\n".into())));
    exec.signal(10).unwrap();
    let outcome = exec.collect(PLENTY).await.unwrap();
    assert_eq!((outcome.stdout.as_slice(), outcome.exit.code), (&b"caught\n"[..], Some(3)));
    let died = client.exec(script("kill -SEGV $$")).await.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!((died.exit.code, died.exit.signal, died.exit.reason), (None, Some(11), ExitReason::Signalled));
}

#[tokio::test]
async fn a_command_that_cannot_start_says_why() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    for (spec, part) in [
        (ExecSpec::argv(["/no/such/program"], "/"), "/no/such/program"),
        (ExecSpec::argv(["/bin/true"], "/no/such/folder"), "/no/such/folder"),
        (ExecSpec::argv(Vec::<String>::new(), "/"), "empty"),
    ] {
        let error = client.exec(spec).await.unwrap().collect(PLENTY).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::SpawnFailed));
        assert!(error.to_string().contains(part), "{error}");
    }
    client.ping().await.unwrap();
}

#[tokio::test]
async fn scripts_may_be_long_and_are_not_arguments() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let text = format!("{}pgrep -fc needle-in-script || echo none\n", "# needle-in-script\n".repeat(60_000));
    let outcome = client.exec(script(text)).await.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), "0\nnone\n");
}
