//! Peers of generation 1, which know no names of commands.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use stead_link::{Client, ErrorCode, ExecSpec, Frame, Kind, Reply, Request, Token, frame};

use crate::protocol::Raw;
use crate::runtime::{Runtime, running, script};

#[tokio::test]
async fn an_old_server_finds_an_old_runtime() {
    let runtime = Runtime::start();
    let mut old = Raw::of_generation(&runtime, 1);
    let exec = serde_json::json!({
        "type": "exec", "name": "ignored", "program": {"argv": ["/bin/sleep", "987.841"]}, "env": {}, "cwd": "/",
    });
    old.frame(Kind::Message, 1, &serde_json::to_vec(&exec).unwrap());
    assert!(matches!(old.reply(), Some((1, Reply::Started { .. }))));
    for (stream, request) in (2..).zip([
        Request::Adopt { name: "ignored".to_owned(), from: 0 },
        Request::Acknowledge { bytes: 0, end: true },
        Request::Detach {},
    ]) {
        old.request(stream, &request);
        assert_eq!(old.error(), (stream, ErrorCode::UnknownMessage));
    }
    assert_eq!(running(&["sleep 987.841"]).len(), 1);
    let new = runtime.client().await;
    assert!(new.adopt("ignored", 0).await.unwrap().is_none());
    drop(old);
    let deadline = Instant::now() + Duration::from_secs(5);
    while !running(&["sleep 987.841"]).is_empty() {
        assert!(Instant::now() < deadline, "it outlived its connection");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A runtime of generation 1 is told no name and asked for none.
#[tokio::test]
async fn a_new_server_makes_do_with_an_old_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let old = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let (mut input, mut seen) = (Vec::new(), Vec::new());
        let mut bytes = [0; 4096];
        while let Ok(read) = socket.read(&mut bytes) {
            if read == 0 {
                break;
            }
            input.extend_from_slice(&bytes[..read]);
            while let Some((frame, used)) = frame::decode(&input).unwrap() {
                let (stream, message): (u32, serde_json::Value) = match frame.kind {
                    Kind::Message => (frame.stream, serde_json::from_slice(frame.payload).unwrap()),
                    _ => (frame.stream, serde_json::json!({"type": "data"})),
                };
                let kind = message["type"].as_str().unwrap().to_owned();
                let replies = match kind.as_str() {
                    "hello" => vec![r#"{"type":"welcome","generation":1,"runtime_version":"0.1.0","pid":1}"#],
                    "exec" => vec![
                        r#"{"type":"started","pid":3}"#,
                        r#"{"type":"exited","code":0,"reason":"exited","output_bytes":0,"survivors":0}"#,
                    ],
                    _ => Vec::new(),
                };
                for payload in replies {
                    let mut output = Vec::new();
                    let payload = payload.as_bytes();
                    frame::encode(&mut output, Frame { kind: Kind::Message, stream, payload }).unwrap();
                    socket.write_all(&output).unwrap();
                }
                seen.push((kind, message.get("name").is_some()));
                input.drain(..used);
            }
        }
        seen
    });
    let client = Client::connect(&path, &Token::new("any")).await.unwrap();
    assert_eq!(client.generation(), 1);
    let mut exec = client.exec(ExecSpec { name: Some("t".to_owned()), ..script("true") }).await.unwrap();
    assert!(!exec.is_kept());
    while exec.next().await.unwrap().is_some() {
        exec.acknowledge(0).unwrap();
    }
    drop(exec);
    assert!(client.adopt("t", 0).await.unwrap().is_none());
    drop(client);
    let seen = tokio::task::spawn_blocking(move || old.join().unwrap()).await.unwrap();
    assert_eq!(seen, ["hello", "exec", "data"].map(|kind| (kind.to_owned(), false)));
}
