//! Named commands: spooled, acknowledged, taken over.

use std::time::{Duration, Instant};

use stead_link::{ErrorCode, Exec, ExecEvent, ExecSpec, ExitReason, ExitReport, LinkError, Reply, Request, StdinMode};

use crate::protocol::Raw;
use crate::runtime::{Runtime, running, script};

fn named(name: &str, text: &str) -> ExecSpec {
    ExecSpec { name: Some(name.to_owned()), ..script(text) }
}

/// Reads standard output until there is at least so much of it.
async fn read(exec: &mut Exec, least: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < least {
        if let ExecEvent::Stdout(bytes) = exec.next().await.unwrap().unwrap() {
            all.extend_from_slice(&bytes);
        }
    }
    all
}

/// The rest, acknowledged byte by byte, and how it ended.
async fn rest(mut exec: Exec) -> (Vec<u8>, ExitReport) {
    let mut all = Vec::new();
    loop {
        match exec.next().await.unwrap().unwrap() {
            ExecEvent::Started { .. } => {}
            ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes) => all.extend_from_slice(&bytes),
            ExecEvent::Exited(report) => {
                exec.acknowledge(exec.position()).unwrap();
                return (all, report);
            }
        }
        exec.acknowledge(exec.position()).unwrap();
    }
}

#[tokio::test]
async fn a_named_command_is_taken_over_where_its_output_was_kept() {
    let runtime = Runtime::start();
    let first = runtime.client().await;
    let text = "echo one; read -t 0.5 <> <(:); seq 100000; echo two; exit 5";
    let mut exec = first.exec(named("t1", text)).await.unwrap();
    assert_eq!(read(&mut exec, 4).await, b"one\n");
    exec.acknowledge(2).unwrap();
    drop((exec, first));
    let second = runtime.client().await;
    assert!(second.adopt("t2", 0).await.unwrap().is_none());
    let exec = second.adopt("t1", 3).await.unwrap().unwrap();
    let (output, report) = rest(exec).await;
    let expected: Vec<String> = (1..=100_000).map(|number| number.to_string()).collect();
    assert_eq!(String::from_utf8(output).unwrap(), format!("\n{}\ntwo\n", expected.join("\n")));
    assert_eq!((report.code, report.reason), (Some(5), ExitReason::Exited));
    second.ping().await.unwrap();
    assert!(second.adopt("t1", 3).await.unwrap().is_none(), "forgotten");
}

/// The end is kept as well, until it is acknowledged or all is killed.
#[tokio::test]
async fn an_end_is_kept_until_it_is_acknowledged() {
    let runtime = Runtime::start();
    for _ in 0..3 {
        let client = runtime.client().await;
        let exec = client.adopt("t1", 0).await.unwrap();
        let mut exec = match exec {
            Some(exec) => exec,
            None => client.exec(named("t1", "echo end; exit 3")).await.unwrap(),
        };
        assert_eq!(read(&mut exec, 4).await, b"end\n");
        let Some(ExecEvent::Exited(report)) = exec.next().await.unwrap() else { panic!("no end") };
        assert_eq!(report.code, Some(3));
    }
    let client = runtime.client().await;
    let error = client.exec(named("t1", "true")).await.unwrap().next().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::BadName));
    client.kill_all().await.unwrap();
    assert!(client.adopt("t1", 0).await.unwrap().is_none());
}

/// Waits until no such process runs.
async fn gone(mark: &str) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !running(&[mark]).is_empty() {
        assert!(Instant::now() < deadline, "{mark} runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_cannot_be_taken_over_or_acknowledged_is_refused() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    for name in [String::new(), "x".repeat(65)] {
        let error = client.exec(named(&name, "true")).await.unwrap().next().await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::BadName));
        assert!(client.adopt(&name, 0).await.unwrap().is_none());
    }
    let longest = "\u{e4}".repeat(32);
    let mut exec = client.exec(named(&longest, "echo abc; sleep 987.851")).await.unwrap();
    read(&mut exec, 4).await;
    exec.acknowledge(3).unwrap();
    drop(exec);
    let code = |outcome: Result<Option<Exec>, LinkError>| outcome.err().and_then(|error| error.code());
    assert_eq!(code(client.adopt(&longest, 5).await), Some(ErrorCode::OutOfRange));
    assert_eq!(code(client.adopt(&longest, u64::MAX).await), Some(ErrorCode::OutOfRange));
    let exec = client.adopt(&longest, 4).await.unwrap().unwrap();
    assert_eq!(code(client.adopt(&longest, 3).await), Some(ErrorCode::OutOfRange), "acknowledged by the one before");
    // A peer that acknowledges what it was not sent loses its stream, and the command goes on.
    let mut raw = Raw::welcome(&runtime);
    raw.request(9, &Request::Adopt { name: longest.clone(), from: 4 });
    assert_eq!(raw.reply(), Some((9, Reply::Adopted { output_bytes: 4 })));
    assert!(matches!(raw.reply(), Some((9, Reply::Started { .. }))));
    raw.request(9, &Request::Acknowledge { bytes: 5, end: false });
    assert_eq!(raw.error(), (9, ErrorCode::OutOfRange));
    for request in [Request::Acknowledge { bytes: 1, end: true }, Request::Detach {}] {
        raw.request(9, &request);
        raw.request(0x7fff_ffff, &request);
    }
    raw.request(10, &Request::Ping {});
    assert_eq!(raw.reply(), Some((10, Reply::Pong {})));
    drop(exec);
    let mut exec = client.adopt(&longest, 4).await.unwrap().unwrap();
    assert!(matches!(exec.next().await, Ok(Some(ExecEvent::Started { .. }))));
    let more = tokio::time::timeout(Duration::from_millis(300), exec.next()).await;
    assert!(more.is_err(), "it runs, and says nothing: {more:?}");
    exec.kill().unwrap();
    gone("sleep 987.851").await;
}

/// A second one takes it from the first, which hears of it and can end nothing any more.
#[tokio::test]
async fn of_two_that_take_a_command_over_the_second_has_it() {
    let runtime = Runtime::start();
    let (first, second) = (runtime.client().await, runtime.client().await);
    let spec = ExecSpec { stdin: StdinMode::Open, ..named("t", "cat; echo end") };
    let mut one = first.exec(spec).await.unwrap();
    one.stdin(b"input\n").await.unwrap();
    assert_eq!(read(&mut one, 6).await, b"input\n");
    let mut two = second.adopt("t", 0).await.unwrap().unwrap();
    let error = one.next().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::TakenOver));
    one.acknowledge(6).unwrap();
    one.kill().unwrap();
    drop((one, first));
    assert_eq!(read(&mut two, 6).await, b"input\n");
    // Input does not come along, but its end does.
    assert!(matches!(two.stdin(b"more\n").await, Err(LinkError::Ended)));
    two.close_stdin().unwrap();
    assert_eq!(rest(two).await.0, b"end\n");
    // Many at once on one connection: one of them has it in the end, and the connection goes on.
    drop(second.exec(named("u", "echo once; sleep 987.852")).await.unwrap());
    let mut all = Vec::new();
    for _ in 0..100 {
        all.push(second.adopt("u", 0).await.unwrap().unwrap());
    }
    let mut last = all.pop().unwrap();
    assert_eq!(read(&mut last, 5).await, b"once\n");
    drop((all, last));
    assert_eq!(second.kill_all().await.unwrap(), 0);
    assert!(second.adopt("u", 0).await.unwrap().is_none());
}

/// What nobody acknowledges waits in bounded memory, and costs those who do acknowledge nothing.
#[tokio::test]
async fn commands_without_a_reader_wait_in_bounded_memory() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    for number in 0..95 {
        let mut exec = client.exec(named(&format!("t{number}"), "yes")).await.unwrap();
        exec.next().await.unwrap();
    }
    // A 96th that is read; beyond it there is no room.
    let mut reader = client.exec(named("reader", "head -c 3000000 /dev/zero")).await.unwrap();
    reader.next().await.unwrap();
    let error = client.exec(named("beyond", "true")).await.unwrap().next().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::Limit));
    assert_eq!(rest(reader).await.0.len(), 3_000_000);
    let most = runtime.pss();
    assert!(most < 12 * 1024, "{most} KiB");
    // Each of them has kept its beginning.
    let mut exec = client.adopt("t94", 0).await.unwrap().unwrap();
    assert!(read(&mut exec, 16 * 1024).await.chunks_exact(2).all(|line| line == b"y\n"));
    assert_eq!(client.kill_all().await.unwrap(), 0);
    // The stream that has it is told the end; nothing is kept besides.
    let (_, report) = rest(exec).await;
    assert_eq!(report.reason, ExitReason::Killed);
    for number in 0..95 {
        assert!(client.adopt(&format!("t{number}"), 0).await.unwrap().is_none());
    }
}

/// Single bytes on both streams in turn cost their frames; a reader that acknowledges gets them all.
#[tokio::test]
async fn tiny_portions_do_not_stop_for_want_of_room() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let text = "python3 -c '
import os
for number in range(20000): os.write(1 + number % 2, b\"x\")'";
    let (output, report) = rest(client.exec(named("t", text)).await.unwrap()).await;
    assert_eq!((output.len(), report.code), (20_000, Some(0)));
}

/// The limits hold while nobody is there, and what fits into the spool is not lost.
#[tokio::test]
async fn limits_hold_without_a_server() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let time = ExecSpec { time_limit: Some(Duration::from_millis(400)), ..named("time", "echo begun; sleep 987.853") };
    let output =
        ExecSpec { output_limit: Some(100_000), ..named("output", "echo begun; exec sh -c 'yes; sleep 987.853'") };
    for spec in [time, output] {
        client.exec(spec).await.unwrap().next().await.unwrap();
    }
    drop(client.exec(script("sleep 987.854")).await.unwrap());
    drop(client);
    gone("sleep 987.854").await;
    gone("sleep 987.853").await;
    let client = runtime.client().await;
    let (output, report) = rest(client.adopt("time", 0).await.unwrap().unwrap()).await;
    assert_eq!((output.as_slice(), report.reason), (&b"begun\n"[..], ExitReason::TimeLimit));
    let (output, report) = rest(client.adopt("output", 0).await.unwrap().unwrap()).await;
    assert_eq!((output.len(), report.reason, report.output_bytes), (100_000, ExitReason::OutputLimit, 100_000));
}

/// Without a server for longer than the grace, everything ends. Who has not proved the token is no server.
#[tokio::test]
async fn a_runtime_without_a_server_ends_after_its_grace() {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_stead-runtime"));
    let grace = ["--orphan-grace".to_owned(), "1".to_owned()];
    let mut runtime = Runtime::spawn(tempfile::tempdir().unwrap(), &[], program, &grace);
    let client = runtime.client().await;
    client.exec(named("t", "setsid sleep 987.855")).await.unwrap().next().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(runtime.child.try_wait().unwrap().is_none(), "a server is there");
    drop(client);
    tokio::time::sleep(Duration::from_millis(600)).await;
    let client = runtime.client().await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    client.ping().await.unwrap();
    let _stranger = Raw::dial(&runtime);
    let left = Instant::now();
    drop(client);
    while runtime.child.try_wait().unwrap().is_none() {
        assert!(left.elapsed() < Duration::from_secs(5), "it goes on without a server");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(left.elapsed() > Duration::from_millis(900), "{:?}", left.elapsed());
    assert!(runtime.child.wait().unwrap().success());
    assert_eq!(running(&["sleep 987.855"]), Vec::<String>::new());
    // Nor does one go on that no server ever dialled.
    let mut runtime = Runtime::spawn(tempfile::tempdir().unwrap(), &[], program, &grace);
    let began = Instant::now();
    while runtime.child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(5), "it waits for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
