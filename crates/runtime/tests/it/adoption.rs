//! Named commands: spooled, acknowledged, taken over.

use stead_link::{ErrorCode, Exec, ExecEvent, ExecSpec, ExitReason, ExitReport};

use crate::runtime::{Runtime, script};

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
    let text = "echo one; read -t 0.5 <> <(:); seq 100000; echo two >&2; exit 5";
    let mut exec = first.exec(named("t1", text)).await.unwrap();
    assert_eq!(read(&mut exec, 4).await, b"one\n");
    exec.acknowledge(2).unwrap();
    drop((exec, first));
    let second = runtime.client().await;
    assert!(second.adopt("t2", 0).await.unwrap().is_none());
    let exec = second.adopt("t1", 3).await.unwrap().unwrap();
    let (output, report) = rest(exec).await;
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(String::from_utf8(output).unwrap(), format!("\n{expected}two\n"));
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
