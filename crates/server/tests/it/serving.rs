//! The life of a server process.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;

use crate::program::{needs_root, ran, stead};
use crate::server::TestServer;

/// Sends one request as it is and returns the whole answer.
fn raw(server: &TestServer, request: &str) -> String {
    let address = server.url().trim_start_matches("http://");
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    connection.write_all(request.replace('\n', "\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_first_key_works_survives_restarts_and_one_process_holds_the_data() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let mode = std::fs::metadata(server.key_file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let secret = std::fs::read_to_string(server.key_file()).unwrap();
    assert!(secret.starts_with("stead_"), "the key has no mark by which a scanner finds it");
    assert!(!server.log().contains(secret.trim()));

    let second = ran(stead().args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(server.data()));
    assert_eq!(second.status, 1);
    assert!(second.stderr.contains("another server (process "), "{}", second.stderr);
    assert!(second.stderr.contains("--take-over"), "{}", second.stderr);

    for crash in [false, true] {
        if crash {
            server.kill();
        } else {
            let (status, took) = server.terminate();
            assert_eq!(status, Some(0));
            assert!(took < Duration::from_secs(5), "an idle server took {took:?} to stop");
        }
        server.start_again();
        let keys = server.ran(&["key", "list", "--json"]);
        let keys: Value = serde_json::from_str(&keys.stdout).unwrap();
        assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
        assert_eq!(std::fs::read_to_string(server.key_file()).unwrap(), secret);
    }
}

#[test]
fn keys_carry_their_verbs_and_revocation_counts_at_once() {
    needs_root!();
    let server = TestServer::start(&[]);
    let made = server.ran(&["key", "create", "reader", "--verb", "read", "--json"]);
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let with = |arguments: &[&str]| ran(stead().args(["--url", server.url(), "--key", secret]).args(arguments));
    assert_eq!(with(&["project", "list"]).status, 0);
    let refused = with(&["project", "create", "demo"]);
    assert!(refused.status == 1 && refused.stderr.contains("hint: "), "{}", refused.stderr);
    assert_eq!(with(&["key", "list"]).status, 1);
    assert_eq!(server.ran(&["key", "revoke", id]).status, 0);
    let revoked = with(&["project", "list"]);
    assert!(revoked.status == 1 && revoked.stdout.is_empty(), "{}", revoked.stderr);
    assert!(!server.log().contains(secret));
}

#[test]
fn every_answer_is_guarded_whoever_gives_it() {
    needs_root!();
    let server = TestServer::start(&[]);
    for (request, status, text) in [
        ("GET / HTTP/1.1\nHost: localhost\nConnection: close\n\n", "200", "Stead gives"),
        ("POST / HTTP/1.1\nHost: localhost\nConnection: close\nContent-Length: 0\n\n", "405", "allow: GET, HEAD"),
        ("GET /v1/uhp HTTP/1.1\nHost: evil.test\nConnection: close\n\n", "421", "uhp-version: 2026-09-28"),
        ("GET /v1/uhp HTTP/1.1\nHost: localhost\nConnection: close\n\n", "200", "\"protocol\":\"uhp\""),
        ("GET /v1/nothing HTTP/1.1\nHost: localhost\nConnection: close\n\n", "404", "\"error\""),
        ("GET /stead/v1/nothing HTTP/1.1\nHost: localhost\nConnection: close\n\n", "404", "route_not_found"),
        ("PUT /stead/v1/keys HTTP/1.1\nHost: localhost\nConnection: close\nContent-Length: 0\n\n", "405", "allow: "),
        ("GET /stead/v1/keys HTTP/1.1\nHost: localhost\nConnection: close\n\n", "401", "credential_missing"),
        (
            "GET /stead/v1/keys HTTP/1.1\nHost: localhost\nConnection: close\nAuthorization: Bearer stead_wrong\n\n",
            "401",
            "credential_invalid",
        ),
    ] {
        let answer = raw(&server, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}\n{answer}");
        assert!(answer.contains(text), "{request}\n{answer}");
        for header in ["x-content-type-options: nosniff", "x-request-id: ", "x-frame-options: DENY"] {
            assert!(answer.contains(header), "{request}\n{answer}");
        }
    }
}
