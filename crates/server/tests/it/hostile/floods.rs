//! How much memory the server can be made to hold. The bounds that it has:
//!
//! * 4,096 connections, each with a head of at most 64 KiB and as much of an answer;
//! * 128 MiB of JSON bodies in all, whatever they claim; what is made of one while it is read is a few times as much;
//! * 128 live streams of one key and 1,024 of all, each with eight events and 64 KiB that wait to be sent.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{connect, first, is_well, said};
use crate::api::{Api, Framing};
use crate::objects::text;
use crate::program::needs_root;
use crate::server::TestServer;

const MIB: u64 = 1 << 20;

fn memory(server: &TestServer) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Lets this process have as many connections as it may.
fn raise_descriptors() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let wanted = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, wanted).unwrap();
}

/// The most memory that the server has while something goes on, over what it had before.
fn growth<T>(server: &TestServer, what: &str, most: u64, act: impl FnOnce() -> T) -> T {
    let before = memory(server);
    let done = act();
    let grown = memory(server).saturating_sub(before);
    eprintln!("{what}: {} MiB more than the {} MiB before", grown / MIB, before / MIB);
    assert!(grown < most, "{what}: the server grew by {} MiB", grown / MIB);
    done
}

#[test]
fn bodies_in_flight_are_bounded_together() {
    needs_root!();
    let server = TestServer::start(&[]);
    let key = Api::of(&server).key().to_owned();
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Length: 94371840\r\n\r\n\
         {{\"input\":\""
    );
    growth(&server, "forty bodies of up to 90 MiB", 400 * MIB, || {
        let senders: Vec<_> = (0..40)
            .map(|_| {
                let (mut connection, head) = (connect(&server), head.clone());
                std::thread::spawn(move || {
                    connection.set_write_timeout(Some(Duration::from_secs(8))).unwrap();
                    let piece = vec![b'a'; 1 << 20];
                    let _ = connection.write_all(head.as_bytes());
                    for _ in 0..16 {
                        if connection.write_all(&piece).is_err() {
                            break;
                        }
                    }
                    connection
                })
            })
            .collect();
        let open: Vec<TcpStream> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        // Somebody else is served all the same, with a body that is not small, once there is room or without.
        let began = Instant::now();
        let answer =
            Api::of(&server).post("/v1/harnesses", &json!({"base": "shell", "system_prompt": "x".repeat(8000)}));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(began.elapsed() < Duration::from_secs(10));
        // Those that found no room were told so, and when to come again.
        let told = open.into_iter().filter_map(|mut connection| {
            connection.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            let mut answer = vec![0; 4096];
            let read = connection.read(&mut answer).ok().filter(|read| *read > 0)?;
            Some(String::from_utf8_lossy(&answer[..read]).to_ascii_lowercase())
        });
        let refused = told.take(1).next().expect("nobody was refused");
        assert!(refused.starts_with("http/1.1 503") && refused.contains("retry-after: "), "{refused}");
    });
    is_well(&server);
}

#[test]
fn thousands_of_slow_connections_cost_little_and_keep_nobody_out() {
    needs_root!();
    raise_descriptors();
    let server = TestServer::start(&[]);
    let part = format!("GET /v1/uhp HTTP/1.1\r\nHost: localhost\r\nX: {}", "a".repeat(30_000));
    let open = growth(&server, "2,000 heads of 30 KB that do not end", 200 * MIB, || {
        let open: Vec<TcpStream> = (0..2000)
            .map(|_| {
                let mut connection = connect(&server);
                connection.write_all(part.as_bytes()).unwrap();
                connection
            })
            .collect();
        std::thread::sleep(Duration::from_secs(1));
        is_well(&server);
        open
    });
    drop(open);
    growth(&server, "5,000 connections one after the other", 50 * MIB, || {
        for _ in 0..5000 {
            let _ = connect(&server).write_all(b"GET /v1");
        }
    });
    is_well(&server);
}

#[test]
fn followers_that_do_not_read_cost_little_and_are_counted() {
    needs_root!();
    raise_descriptors();
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    let begun = api.begin(&harness, "sleep 3; head -c 20000000 /dev/zero | tr '\\0' 'a' | fold -w 100; sleep 60");
    let id = text(&begun["id"]).to_owned();
    let events = [("Accept", "text/event-stream")];
    let follow = |path: &str| api.open("GET", path, &events, b"", Framing::Length).unwrap();
    let (stream, raw) = (format!("/v1/responses/{id}?stream=1"), format!("/stead/v1/turns/{id}/output"));
    growth(&server, "128 followers of 20 MB of output that read nothing", 300 * MIB, || {
        let followers: Vec<_> = (0..128).map(|number| follow(if number % 2 == 0 { &stream } else { &raw })).collect();
        for follower in &followers {
            assert_eq!(follower.status, 200);
        }
        for path in [&stream, &raw] {
            let refused = follow(path).finish().unwrap();
            assert_eq!((refused.status, &refused.json()["error"]["code"]), (429, &json!("rate_limited")));
            assert!(refused.header("retry-after").is_some());
        }
        // A task whose stream nobody could follow is not started.
        let sessions = api.get("/v1/sessions").ok();
        let task = json!({"input": "true", "stream": true, "metadata": {"harness_id": harness}});
        assert_eq!(api.post("/v1/responses", &task).status, 429);
        assert_eq!(api.get("/v1/sessions").ok(), sessions);
        std::thread::sleep(Duration::from_secs(8));
        followers
    });
    // Their places are free once they are gone.
    crate::objects::eventually("a free place", || {
        let status = follow(&stream).status;
        if status == 200 { Ok(()) } else { Err(status.to_string()) }
    });
    let answer = said(&server, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(first(&answer).0, 200);
    api.delete_sessions();
    is_well(&server);
}
