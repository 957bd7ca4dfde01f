//! One server process gives its place to the next: no connection is refused, sessions go on, and what cannot be is said.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::api::{Api, Framing};
use crate::objects::{eventually, leaves_nothing, process, processes, said, text};
use crate::program::needs_root;
use crate::server::TestServer;

/// Counts to a hundred over some seconds.
const COUNT: &str = "for i in $(seq 1 100); do echo line $i; echo $i >> counted; sleep 0.04; done";

fn counted() -> String {
    let lines: Vec<String> = (1..=100).map(|number| format!("line {number}")).collect();
    lines.join("\n") + "\n"
}

/// Begins to count, and returns when something was said.
fn counting(api: &Api, harness: &str) -> Value {
    let body = json!({"input": COUNT, "background": true, "metadata": {"harness_id": harness}});
    let begun = api.ask(&body).ok();
    eventually("the count to begin", || {
        let files = api.get(&format!("/v1/sessions/{}/files", text(&begun["metadata"]["session_id"])));
        let response = api.get(&format!("/v1/responses/{}", text(&begun["id"]))).ok();
        if response["status"] == "in_progress" { Ok(()) } else { Err(format!("{response} {}", files.status)) }
    });
    std::thread::sleep(Duration::from_millis(500));
    begun
}

/// The count ended well, with every line once, and the session goes on where its files are.
fn ended_well(api: &Api, begun: &Value) {
    let response = api.ended(begun);
    assert_eq!(response["status"], "completed", "{response}");
    assert_eq!(said(&response), counted());
    assert_eq!(said(&api.go_on(&response, "sort -n counted | uniq | wc -l; wc -l < counted")), "100\n100\n");
}

/// What became of a connection that was opened during a take-over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Met {
    Answered(u16),
    Refused(String),
    Reset(String),
}

fn knock(address: &str, key: &str) -> Met {
    let mut connection = match TcpStream::connect(address) {
        Ok(connection) => connection,
        Err(error) => return Met::Refused(error.to_string()),
    };
    connection.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    // As a client does that has something to think of first.
    std::thread::sleep(Duration::from_millis(3));
    let request = format!(
        "GET /v1/sessions HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    );
    if let Err(error) = connection.write_all(request.as_bytes()) {
        return Met::Reset(error.to_string());
    }
    let mut answer = String::new();
    match connection.read_to_string(&mut answer) {
        Ok(_) if answer.is_empty() => Met::Reset("closed without a word".to_owned()),
        Ok(_) => Met::Answered(answer.split(' ').nth(1).unwrap().parse().unwrap()),
        Err(error) => Met::Reset(error.to_string()),
    }
}

#[test]
fn a_take_over_refuses_no_connection_and_sessions_go_on() {
    needs_root!();
    let mut server = TestServer::start(&[("server.shutdown_grace", "5s")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let begun = counting(&api, &harness);
    let following = follow(&api, &harness);

    let (address, key) = (server.url().trim_start_matches("http://").to_owned(), api.key().to_owned());
    let enough = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&enough);
    let knocking = std::thread::spawn(move || {
        let mut knocks = Vec::new();
        while !done.load(Ordering::Relaxed) {
            let (address, key) = (address.clone(), key.clone());
            knocks.push(std::thread::spawn(move || knock(&address, &key)));
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut met = BTreeMap::new();
        for knock in knocks {
            *met.entry(knock.join().unwrap()).or_insert(0) += 1;
        }
        met
    });
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.take_over(), Some(0), "{}", server.log());
    // Twice in a row.
    assert_eq!(server.take_over(), Some(0), "{}", server.log());
    std::thread::sleep(Duration::from_millis(200));
    enough.store(true, Ordering::Relaxed);
    let met = knocking.join().unwrap();
    assert_eq!(met.keys().collect::<Vec<_>>(), [&Met::Answered(200)], "{met:?}");
    assert!(met[&Met::Answered(200)] > 100, "{met:?}");

    ended_well(&api, &begun);
    // Who followed a stream was cut off in the middle of it, and finds everything where it asks again.
    let (response, whole) = following.join().unwrap();
    assert!(!whole, "a stream that is cut does not look whole");
    ended_well(&api, &response);
    leaves_nothing(&server, &api);
}

/// Follows a counting task's stream to its end, whichever that is. Returns its response and whether the stream ended as it should.
fn follow(api: &Api, harness: &str) -> std::thread::JoinHandle<(Value, bool)> {
    let body = json!({"input": COUNT, "stream": true, "metadata": {"harness_id": harness}});
    let headers = [("Content-Type", "application/json")];
    let opened = api.open("POST", "/v1/responses", &headers, body.to_string().as_bytes(), Framing::Length).unwrap();
    std::thread::spawn(move || {
        let (mut response, mut whole) = (Value::Null, false);
        for line in BufReader::new(opened.body).lines().map_while(Result::ok) {
            let Ok(event) = serde_json::from_str::<Value>(line.trim_start_matches("data:")) else { continue };
            match event["type"].as_str() {
                Some("response.created") => response = event["response"].clone(),
                Some("response.completed") => whole = true,
                _ => {}
            }
        }
        (response, whole)
    })
}

#[test]
fn sessions_go_on_across_sigterm_and_the_next_start() {
    needs_root!();
    let mut server = TestServer::start(&[("server.shutdown_grace", "2s")]);
    let api = Api::of(&server);
    let begun = counting(&api, &api.harness());
    let (status, took) = server.hand_over();
    assert_eq!(status, Some(0));
    assert!(took < Duration::from_secs(10), "handing over took {took:?}");
    assert!(!processes(&server).is_empty(), "what ran goes on without a server");
    std::thread::sleep(Duration::from_millis(500));
    server.start_again();
    ended_well(&api, &begun);
    leaves_nothing(&server, &api);
}

#[test]
fn a_second_signal_ends_everything() {
    needs_root!();
    let mut server = TestServer::start(&[("server.shutdown_grace", "20s")]);
    let api = Api::of(&server);
    let harness = api.harness();
    // A request that waits keeps the first signal waiting.
    let waiting = {
        let (api, body) = (api.clone(), json!({"input": "sleep 300", "metadata": {"harness_id": harness}}));
        std::thread::spawn(move || {
            let headers = [("Content-Type", "application/json")];
            api.try_send("POST", "/v1/responses", &headers, body.to_string().as_bytes())
        })
    };
    eventually(
        "the task to run",
        || if processes(&server).is_empty() { Err("nothing runs".to_owned()) } else { Ok(()) },
    );
    let began = Instant::now();
    server.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(500));
    server.signal(Signal::TERM);
    let (status, _) = server.wait_for_end();
    assert_eq!(status, Some(0));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(processes(&server), Vec::<String>::new(), "{}", server.log());
    let _ = waiting.join().unwrap();
    server.start_again();
}

#[test]
fn half_a_body_and_a_reader_that_takes_nothing_keep_no_stop_waiting() {
    needs_root!();
    let mut server = TestServer::start(&[("server.shutdown_grace", "40s")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let written = api.run(&harness, "head -c 20000000 /dev/zero");
    for round in 0..2 {
        let address = server.url().trim_start_matches("http://").to_owned();
        let begin = |head: String, body: &[u8]| {
            let mut connection = TcpStream::connect(&address).unwrap();
            let head = format!("{head} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n", api.key());
            connection.write_all(head.as_bytes()).unwrap();
            connection.write_all(body).unwrap();
            connection
        };
        let turn = text(&written["id"]);
        let half = begin(
            "POST /v1/files".to_owned(),
            b"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n--b",
        );
        let json = begin("POST /v1/responses".to_owned(), b"Content-Length: 100000\r\n\r\n{\"i");
        let deaf = begin(format!("GET /stead/v1/turns/{turn}/output"), b"\r\n");
        std::thread::sleep(Duration::from_millis(500));
        let (status, took) = if round == 0 { server.terminate() } else { server.hand_over() };
        assert!(status == Some(0) && took < Duration::from_secs(15), "{round}: {status:?} {took:?} {}", server.log());
        drop((half, json, deaf));
        server.start_again();
    }
}

#[test]
fn of_two_that_want_the_same_place_one_is_told_at_once() {
    needs_root!();
    let mut server = TestServer::start(&[("server.shutdown_grace", "4s")]);
    let api = Api::of(&server);
    let body = json!({"input": "sleep 300", "metadata": {"harness_id": api.harness()}});
    let waiting = {
        let api = api.clone();
        std::thread::spawn(move || {
            api.try_send("POST", "/v1/responses", &[("Content-Type", "application/json")], body.to_string().as_bytes())
        })
    };
    eventually("the task to run", || process(&server, "sleep 300").map(|_| ()).ok_or("nothing runs".to_owned()));
    let (said, gone) = std::thread::scope(|scope| {
        let other = server.rival();
        let taking = scope.spawn(|| server.take_over());
        std::thread::sleep(Duration::from_millis(1500));
        let began = Instant::now();
        let tried = other();
        ((tried, began.elapsed()), taking.join().unwrap())
    });
    assert_eq!(gone, Some(0));
    let (tried, took) = said;
    assert!(tried.status == 1 && tried.stderr.contains("already taking the place"), "{}", tried.stderr);
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(waiting.join().unwrap().unwrap().status, 200);
    assert_eq!(api.get("/v1/sessions").status, 200);
}

#[test]
fn a_server_that_hangs_is_waited_for_only_so_long_and_never_killed() {
    needs_root!();
    let server = TestServer::start(&[("server.shutdown_grace", "1s")]);
    server.signal(Signal::STOP);
    let began = Instant::now();
    let tried = server.tried(&["--take-over"]);
    let took = began.elapsed();
    server.signal(Signal::CONT);
    assert_eq!(tried.status, 1, "{}", tried.stderr);
    assert!(tried.stderr.contains("did not answer on its control socket"), "{}", tried.stderr);
    assert!(took < Duration::from_secs(20), "{took:?}");
    // It was not harmed, and serves; what it was asked while it slept was taken back.
    let api = Api::of(&server);
    eventually("the server to answer", || {
        let answer = api.try_send("GET", "/v1/sessions", &[], b"");
        if answer.is_some_and(|answer| answer.status == 200) { Ok(()) } else { Err("it does not".to_owned()) }
    });
}

#[test]
fn a_take_over_that_cannot_succeed_leaves_the_server_as_it_is() {
    needs_root!();
    let server = TestServer::start(&[]);
    for (arguments, why) in
        [(&["--take-over", "--runtime", "/nonexistent/runtime"][..], "/nonexistent/runtime"), (&[][..], "--take-over")]
    {
        let tried = server.tried(arguments);
        assert!(tried.status == 1 && tried.stderr.contains(why), "{arguments:?}: {}", tried.stderr);
        assert_eq!(server.ran(&["session", "list"]).status, 0);
    }
}

#[test]
fn the_database_of_a_newer_server_is_refused_and_left_as_it_is() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let why = "the database has schema 9000, but this server knows";
    let what_to_do = "run the server that wrote it, or a newer one";
    server.sql(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         SELECT 9000, 'later', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1",
    );
    let refused = |server: &TestServer, arguments: &[&str]| {
        let tried = server.tried(arguments);
        let said = tried.status == 1 && tried.stderr.contains(why) && tried.stderr.contains(what_to_do);
        assert!(said, "{arguments:?}: {} {}", tried.status, tried.stderr);
    };
    // The server that runs is not asked to go for one that could not start.
    refused(&server, &["--take-over"]);
    assert_eq!(server.ran(&["session", "list"]).status, 0);
    server.terminate();
    refused(&server, &[]);
    server.sql("DELETE FROM _sqlx_migrations WHERE version = 9000");
    server.start_again();
    assert_eq!(server.ran(&["session", "list"]).status, 0);
}
