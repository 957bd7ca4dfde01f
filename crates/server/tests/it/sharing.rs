//! Nobody hogs the room for large bodies, and environments that are stopped the moment they are idle cost no task.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::api::Api;
use crate::objects::{said, text};
use crate::program::needs_root;
use crate::server::TestServer;

/// Begins to hand in a task of so many bytes and sends none of them.
fn begin_body(server: &TestServer, key: &str, bytes: usize) -> TcpStream {
    let address = server.url().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\nContent-Length: {bytes}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn large_bodies_of_one_key_leave_room_for_those_of_another() {
    let server = TestServer::start(&[]);
    let (hog, other) = (Api::of(&server), Api::of_tenant(&server, "other"));
    let harness = other.harness();
    let _first = begin_body(&server, hog.key(), 60 << 20);
    std::thread::sleep(Duration::from_millis(300));
    let second = begin_body(&server, hog.key(), 60 << 20);
    std::thread::sleep(Duration::from_millis(300));

    let large = " ".repeat(40 << 20);
    let body = format!("{{\"input\": \"echo fits\", \"metadata\": {{\"harness_id\": \"{harness}\"}}}}{large}");
    let answer = other.send("POST", "/v1/responses", &[("Content-Type", "application/json")], body.as_bytes()).ok();
    assert_eq!(answer["error"]["code"], json!(null), "{answer}");

    let head: Vec<String> =
        BufReader::new(second).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    assert!(head[0].contains(" 503 "), "{head:?}");
    assert!(head.iter().any(|line| line.eq_ignore_ascii_case("retry-after: 1")), "{head:?}");
}

#[test]
fn tasks_are_not_hit_by_stops_of_what_is_idle() {
    needs_root!();
    const EACH: usize = 30;
    let server = TestServer::start(&[("sessions.idle_stop", "1ms")]);
    let api = Api::of(&server);
    let harness = api.harness();
    std::thread::scope(|scope| {
        for client in 0..3 {
            let (api, harness) = (&api, &harness);
            scope.spawn(move || {
                let mut previous = None;
                for number in 0..EACH {
                    let script = format!("echo {client} {number}");
                    // Now a session of its own, now one that is being stopped for idleness this very moment, or has been.
                    let response = match previous.take().filter(|_| number % 3 > 0) {
                        Some(previous) => api.go_on(&previous, &script),
                        None => api.run(harness, &script),
                    };
                    assert_eq!(response["status"], "completed", "{response}");
                    assert_eq!(said(&response).trim_end(), format!("{client} {number}"));
                    assert!(!text(&response["id"]).is_empty());
                    // The sweep looks when something asks for it; a deletion does.
                    if number % 3 == 2 {
                        let session = text(&response["metadata"]["session_id"]).to_owned();
                        api.send("DELETE", &format!("/v1/sessions/{session}"), &[], b"").ok();
                    } else {
                        previous = Some(response);
                    }
                    std::thread::sleep(Duration::from_millis((number % 5) as u64 * 7));
                }
            });
        }
    });
    assert!(server.log().contains("stopping an idle environment"));
}
