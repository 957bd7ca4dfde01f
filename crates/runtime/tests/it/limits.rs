//! Memory, credit and output limits.

use std::time::{Duration, Instant};

use stead_link::{ExecEvent, ExitReason};

use crate::runtime::{PLENTY, Runtime, script};

/// KiB. The test's build is not optimised and not static, so it is larger than what ships.
const MOST_MEMORY: u64 = 6 * 1024;

#[tokio::test]
async fn a_flood_is_delivered_in_bounded_memory() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let mut exec =
        client.exec(script("head -c 200000000 /dev/zero & head -c 100000 /dev/zero >&2; wait")).await.unwrap();
    let (mut stdout, mut stderr, mut most) = (0, 0, 0);
    let mut next_look = 0;
    while let Some(event) = exec.next().await.unwrap() {
        match event {
            ExecEvent::Stdout(bytes) => stdout += bytes.len(),
            ExecEvent::Stderr(bytes) => stderr += bytes.len(),
            ExecEvent::Exited(report) => assert_eq!(report.output_bytes, 200_100_000),
            ExecEvent::Started { .. } => {}
        }
        if stdout > next_look {
            most = most.max(runtime.pss());
            next_look += 10_000_000;
        }
    }
    assert_eq!((stdout, stderr), (200_000_000, 100_000));
    assert!(most < MOST_MEMORY, "{most} KiB");
}

#[tokio::test]
async fn the_output_limit_kills_and_keeps_what_fits() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let mut spec = script("yes & (setsid sleep 987.801 &); yes >&2");
    spec.output_limit = Some(1_000_000);
    let outcome = client.exec(spec).await.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!(outcome.exit.reason, ExitReason::OutputLimit);
    assert_eq!(outcome.stdout.len() + outcome.stderr.len(), 1_000_000);
    assert_eq!(outcome.exit.output_bytes, 1_000_000);
    assert_eq!(crate::runtime::running(&["sleep 987.801"]), Vec::<String>::new());
    let mut exact = script("head -c 1000 /dev/zero");
    exact.output_limit = Some(1000);
    let outcome = client.exec(exact).await.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!((outcome.exit.reason, outcome.stdout.len()), (ExitReason::Exited, 1000));
}

/// Two commands at once; the reader of one does not read, which costs the other nothing.
#[tokio::test]
async fn a_slow_reader_holds_only_its_own_command() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let slow = client.exec(script("head -c 20000000 /dev/zero; echo end >&2")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = Instant::now();
    for _ in 0..5 {
        let quick = client.exec(script("head -c 1000000 /dev/zero")).await.unwrap();
        assert_eq!(quick.collect(PLENTY).await.unwrap().stdout.len(), 1_000_000);
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(runtime.pss() < MOST_MEMORY);
    let outcome = slow.collect(PLENTY).await.unwrap();
    assert_eq!((outcome.stdout.len(), outcome.stderr.as_slice()), (20_000_000, &b"end\n"[..]));
}

/// A command that does not read its input holds its own writer alone.
#[tokio::test]
async fn input_is_bounded_too() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let mut spec = script("sleep 987.811");
    spec.stdin = stead_link::StdinMode::Open;
    let exec = client.exec(spec).await.unwrap();
    let bytes = vec![0; 4 << 20];
    let write = tokio::time::timeout(Duration::from_millis(300), exec.stdin(&bytes)).await;
    assert!(write.is_err(), "nobody read it");
    assert!(runtime.pss() < MOST_MEMORY);
    client.ping().await.unwrap();
    exec.kill().unwrap();
    assert_eq!(exec.collect(PLENTY).await.unwrap().exit.reason, ExitReason::Killed);
}
