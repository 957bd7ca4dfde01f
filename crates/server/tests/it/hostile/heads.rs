//! Heads of requests, and connections that are not what they should be.

use std::io::{Read, Write};
use std::net::Shutdown;

use super::{connect, first, is_well, said};
use crate::api::Api;
use crate::program::needs_root;
use crate::server::TestServer;

const HOST: &str = "Host: localhost\r\n";

/// What is sent, and what may come back; 0 is a connection that is closed without a word.
fn heads() -> Vec<(Vec<u8>, &'static [u16])> {
    let get = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\n{HOST}{fields}\r\n").into_bytes();
    let closing = |target: &str| get(target, "Connection: close\r\n");
    let post = |fields: &str, rest: &str| {
        format!("POST /v1/harnesses HTTP/1.1\r\n{HOST}{fields}Connection: close\r\n\r\n{rest}").into_bytes()
    };
    let with = |mut bytes: Vec<u8>, place: &[u8], other: &[u8]| {
        let at = bytes.windows(place.len()).position(|window| window == place).unwrap();
        bytes.splice(at..at + place.len(), other.iter().copied());
        bytes
    };
    vec![
        // No requests at all.
        (b"\x00\x01\x02\r\n\r\n".to_vec(), &[400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), &[400]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[0, 400, 505]),
        (b"GET\r\n\r\n".to_vec(), &[400]),
        (b"GET / HTTP/3.0\r\nHost: localhost\r\n\r\n".to_vec(), &[400, 505]),
        (b"GET / HTTP/1.1 more\r\nHost: localhost\r\n\r\n".to_vec(), &[400]),
        (b"GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[400]),
        // Targets.
        (closing(&format!("/v1/{}", "a".repeat(20_000))), &[414]),
        (closing(&format!("/v1/{}", "a".repeat(300_000))), &[414]),
        (closing(&format!("/v1/sessions?cursor={}", "a".repeat(17_000))), &[414]),
        (closing("/v1/sessions/%"), &[401]),
        (closing("/v1/sessions/%zz%00%ff"), &[401]),
        (closing("/stead/v1/turns/%ff%fe"), &[401]),
        (closing("/v1/../../etc/passwd"), &[404]),
        (closing("/v1//sessions"), &[404]),
        (closing("//v1/sessions"), &[404]),
        (with(closing("/v1/x"), b"/x", b"/\x00"), &[400]),
        (with(closing("/v1/x"), b"/x", b"/\xff\xfe"), &[400, 404]),
        (closing("http://localhost/v1/uhp"), &[200]),
        (closing("http://elsewhere.example/v1/uhp"), &[421]),
        (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec(), &[404, 405]),
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec(), &[400, 404, 405]),
        (b"TRACE /v1/uhp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec(), &[405]),
        (b"\xc3\xa9 /v1/uhp HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[400]),
        (format!("{} /v1/uhp HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n", "M".repeat(9000)).into_bytes(), &[400, 405]),
        // Fields.
        (get("/v1/uhp", &format!("X: {}\r\n", "a".repeat(200_000))), &[431]),
        (get("/v1/uhp", &"X: a\r\n".repeat(200)), &[431]),
        (get("/v1/uhp", "Na me: x\r\n"), &[400]),
        (get("/v1/uhp", "Name : x\r\n"), &[400]),
        (get("/v1/uhp", ": x\r\n"), &[400]),
        (get("/v1/uhp", "no field\r\n"), &[400]),
        (get("/v1/uhp", " folded: x\r\n"), &[400]),
        (with(get("/v1/uhp", "X: y\r\n"), b"y", b"\x00"), &[400]),
        (with(get("/v1/uhp", "X: y\r\nConnection: close\r\n"), b"y", b"\xff"), &[200]),
        (with(get("/v1/harnesses", "Authorization: y\r\nConnection: close\r\n"), b"y", b"Bearer \xff"), &[401]),
        (get("/v1/uhp", "Host: localhost\r\nConnection: close\r\n"), &[400]),
        (with(closing("/v1/uhp"), b"localhost", b"a b"), &[400]),
        (with(closing("/v1/uhp"), b"Host: localhost\r\n", b""), &[400]),
        (b"GET /v1/uhp HTTP/1.0\r\n\r\n".to_vec(), &[400]),
        (b"GET /v1/uhp HTTP/1.0\r\nHost: localhost\r\n\r\n".to_vec(), &[200]),
        (get("/v1/uhp", "UHP-Version: \x0b\r\nConnection: close\r\n"), &[400]),
        // Lengths that are none, and two ways to say where a body ends.
        (post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"), &[400]),
        (post("Content-Length: 5, 6\r\n", "hello!"), &[400]),
        (post("Content-Length: -1\r\n", ""), &[400]),
        (post("Content-Length: +5\r\n", "hello"), &[400]),
        (post("Content-Length: 0x5\r\n", "hello"), &[400]),
        (post("Content-Length: 99999999999999999999999\r\n", ""), &[400]),
        (post("Content-Length: 18446744073709551615\r\n", ""), &[400, 401, 413, 431]),
        (post("Transfer-Encoding: gzip\r\n", "x"), &[400, 501]),
        (post("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"), &[400, 501]),
        (post("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n"), &[400, 501]),
        (post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), &[400, 501]),
        (post("Transfer-Encoding: gzip, chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"), &[400, 501]),
        (post("Content-Encoding: gzip\r\nContent-Length: 2\r\n", "{}"), &[415]),
        (post("Idempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 2\r\n", "{}"), &[400]),
        (post("Expect: the worst\r\nContent-Length: 0\r\n", ""), &[417]),
        (with(post("Transfer-Encoding: chunked\r\n", "0\r\n\r\n"), b"HTTP/1.1", b"HTTP/1.0"), &[400]),
    ]
}

#[test]
fn whatever_a_head_is_it_is_answered_in_the_envelope_and_the_server_stays_well() {
    needs_root!();
    let server = TestServer::start(&[]);
    let mut wrong = Vec::new();
    for (bytes, allowed) in heads() {
        let answer = said(&server, &bytes);
        let (status, body) = first(&answer);
        let shown: String = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).escape_debug().collect();
        let told = String::from_utf8_lossy(&answer[..answer.len().min(300)]).into_owned();
        if !allowed.contains(&status) {
            wrong.push(format!("{shown}: {status}, not {allowed:?}: {told}"));
        }
        let head = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        if [400, 414, 415, 417, 421, 431, 501].contains(&status) {
            let kind = body["error"]["type"].as_str();
            if kind != Some("invalid_request_error") || !head.contains("x-request-id: ") || !head.contains("nosniff") {
                wrong.push(format!("{shown}: no envelope: {}", String::from_utf8_lossy(&answer)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    is_well(&server);
}

#[test]
fn nothing_is_smuggled_behind_another_request() {
    needs_root!();
    let server = TestServer::start(&[]);
    let key = Api::of(&server).key().to_owned();
    let begin = format!("POST /v1/harnesses HTTP/1.1\r\n{HOST}Authorization: Bearer {key}\r\n");
    let hidden = format!("GET /v1/uhp HTTP/1.1\r\n{HOST}X-Hidden: yes\r\nConnection: close\r\n\r\n");
    let answers = |bytes: &str| String::from_utf8_lossy(&said(&server, bytes.as_bytes())).matches("HTTP/1.1 ").count();
    // What two ways of reading would see as one request and as two is seen as one, and the connection ends.
    for (head, body) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", "0\r\n\r\n"),
        ("Content-Length: 2\r\nContent-Length: 3\r\n\r\n", "{}"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding : chunked\r\n\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n\r\n", "0x0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n\r\n", "fffffffffffffffff\r\n"),
        ("Transfer-Encoding: chunked\r\n\r\n", "2\r\n{}x\r\n0\r\n\r\n"),
    ] {
        assert_eq!(answers(&format!("{begin}{head}{body}{hidden}")), 1, "{head:?} {body:?}");
    }
    // What is one request in any reading is answered, and what follows it is another one.
    for (head, body) in [
        ("Content-Length: 2\r\n\r\n", "{}"),
        ("Content-Length: 2\r\nContent-Length: 2\r\n\r\n", "{}"),
        ("Transfer-Encoding: chunked\r\n\r\n", "2;a=b;c=\"d\"\r\n{}\r\n0\r\nTrailer: x\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nTrailer: Host\r\n\r\n", "2\r\n{}\r\n0\r\nHost: evil.example\r\n\r\n"),
    ] {
        assert_eq!(answers(&format!("{begin}{head}{body}{hidden}")), 2, "{head:?} {body:?}");
    }
    // Ten at once, and then what is no request: ten answers, then a refusal, then the end.
    let many = format!("GET /v1/uhp HTTP/1.1\r\n{HOST}\r\n").repeat(10);
    let answer = said(&server, format!("{many}\x00\r\n\r\n{hidden}").as_bytes());
    let text = String::from_utf8_lossy(&answer);
    assert_eq!((text.matches("HTTP/1.1 200").count(), text.matches("HTTP/1.1 400").count()), (10, 1), "{text}");
    assert!(text.contains("this is no request of HTTP/1.1"), "{text}");
    is_well(&server);
}

#[test]
fn parting_early_at_any_moment_harms_nobody() {
    needs_root!();
    let server = TestServer::start(&[]);
    let key = Api::of(&server).key().to_owned();
    let whole = format!(
        "POST /v1/harnesses HTTP/1.1\r\n{HOST}Authorization: Bearer {key}\r\nContent-Length: 40\r\nExpect: 100-continue\r\n\r\n\
         {{\"base\":\"shell\",\"name\":\"a\",\"stead_x\":1}}"
    );
    for cut in (0..whole.len()).step_by(7) {
        for how in [None, Some(Shutdown::Write), Some(Shutdown::Both)] {
            let mut connection = connect(&server);
            let _ = connection.write_all(&whole.as_bytes()[..cut]);
            if let Some(how) = how {
                let _ = connection.shutdown(how);
                if how == Shutdown::Write {
                    let mut rest = Vec::new();
                    let _ = connection.read_to_end(&mut rest);
                    let (status, _) = first(&rest);
                    assert!(status < 500, "cut at {cut}: {}", String::from_utf8_lossy(&rest));
                }
            }
        }
    }
    is_well(&server);
}
