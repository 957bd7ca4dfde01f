//! HTTP as an enemy speaks it, against the real program through raw sockets: whatever comes, the answer is a refusal in the
//! envelope, never a fault of the server, and what it holds in memory stays bounded.

mod bodies;
mod floods;
mod heads;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::server::TestServer;

/// A connection for bytes as they are.
fn connect(server: &TestServer) -> TcpStream {
    let connection = TcpStream::connect(server.url().trim_start_matches("http://")).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    connection
}

/// Everything that comes back for these bytes. What cannot be sent any more is left unsent.
fn said(server: &TestServer, bytes: &[u8]) -> Vec<u8> {
    let mut connection = connect(server);
    let _ = connection.write_all(bytes);
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer);
    answer
}

/// The status of the first answer, and its body when that is JSON.
fn first(answer: &[u8]) -> (u16, Value) {
    let text = String::from_utf8_lossy(answer);
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let mut values = serde_json::Deserializer::from_str(body).into_iter::<Value>();
    (status, values.next().and_then(Result::ok).unwrap_or_default())
}

/// The server is as it was: it answers, and nothing in it has panicked or failed.
pub(crate) fn is_well(server: &TestServer) {
    let answer = said(server, b"GET /v1/uhp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(first(&answer).0, 200, "{}", String::from_utf8_lossy(&answer));
    let log = server.log();
    let faults: Vec<&str> = log.lines().filter(|line| line.contains("panicked") || line.contains("ERROR")).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
