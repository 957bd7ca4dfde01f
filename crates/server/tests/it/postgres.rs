//! What only PostgreSQL can do to a server: be wanted by two, be locked by others, lose connections. The tests that hold for either
//! database run on it besides (see `stores.txt`).

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use stead_testkit::TestDatabase;
use stead_testkit::database::hold;

use crate::api::Api;
use crate::objects::{eventually, leaves_nothing, said, text, wait_for_file};
use crate::observing::plain;
use crate::program::{needs_root, ran, stead};
use crate::server::{TestServer, wait_for};

fn database() -> Option<TestDatabase> {
    wait_for(stead_testkit::database::postgres())
}

#[test]
fn a_second_server_is_refused_and_the_first_one_comes_back_at_once_after_a_kill() {
    needs_root!();
    let Some(database) = database() else { return };
    let url = database.url_text();
    let mut server = TestServer::start(&[("database.url", &url), ("sessions.network", "disabled")]);
    assert!(!server.data().join("stead.db").exists());
    let api = Api::of(&server);
    let harness = api.harness();
    let begun = api.begin(&harness, "echo kept > kept.txt; touch begun; sleep 300");
    wait_for_file(&server, "begun");

    // A new directory would be refused for that alone, before anybody looks at the lock.
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("node"), "node-another\n").unwrap();
    let mut second = stead();
    second.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(elsewhere.path()).env("STEAD__DATABASE__URL", &url);
    let refused = ran(&mut second);
    let held = format!("another server uses the database (stead, process {} on ", server.pid());
    assert!(refused.status == 1 && refused.stderr.contains(&held), "{}", refused.stderr);
    assert!(refused.stderr.contains("give this one a database of its own"), "{}", refused.stderr);
    assert_eq!(api.get("/v1/sessions").status, 200);

    // Requests are in the midst of writing when it dies, several times.
    for _ in 0..3 {
        let written = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let body = json!({"name": "n", "base": "shell"}).to_string();
                    let headers = [("Content-Type", "application/json")];
                    while api.try_send("POST", "/v1/harnesses", &headers, body.as_bytes()).is_some() {
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            eventually("requests to be in the midst of writing", || {
                let written = written.load(Ordering::Relaxed);
                if written < 4 { Err(format!("{written} harnesses")) } else { Ok(()) }
            });
            server.kill();
        });
        server.start_again();
        let log = server.log();
        let waits = log.lines().filter(|line| line.contains("the last connection to the database had not ended"));
        let waits = waits.map(|line| line.split_once("waited_ms=").unwrap().1.split(' ').next().unwrap());
        let waits: Vec<u64> = waits.map(|text| text.parse().unwrap()).collect();
        assert!(waits.iter().all(|waited| *waited < 1500), "{waits:?}");
    }
    assert!(text(&api.ended(&begun)["error"]["message"]).starts_with("interrupted"));
    assert_eq!(said(&api.go_on(&begun, "cat kept.txt")), "kept\n");
    leaves_nothing(&server, &api);
}

/// Whoever is faster than a server whose connection was cut: it waits in line for the lock.
const FASTER: &str = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    SELECT pg_advisory_lock(1398031681, hashtext(current_schema()))";

#[test]
fn a_server_that_lost_its_database_to_another_ends_as_in_a_crash() {
    needs_root!();
    let Some(database) = database() else { return };
    let url = database.url_text();
    let settings = [("database.url", url.as_str()), ("sessions.network", "disabled"), ("sessions.orphan_grace", "60s")];
    let mut server = TestServer::start(&settings);
    let api = Api::of(&server);
    let begun = api.begin(&api.harness(), "echo kept > kept.txt; touch begun; sleep 300");
    wait_for_file(&server, "begun");
    let other = hold(database.url(), FASTER);
    // Nobody needs to ask it for anything.
    let (status, took) = server.wait_for_end();
    assert_eq!(status, Some(1), "{}", server.log());
    assert!(took < Duration::from_secs(15), "{took:?}");
    eventually("its last words", || {
        let log = server.log();
        if log.contains("took the database while this one had no connection to it") { Ok(()) } else { Err(log) }
    });
    let refused = server.tried(&[]);
    assert!(refused.status == 1 && refused.stderr.contains("another server uses the database"), "{}", refused.stderr);
    drop(other);
    server.start_again();
    assert!(text(&api.ended(&begun)["error"]["message"]).starts_with("interrupted"));
    assert_eq!(said(&api.go_on(&begun, "cat kept.txt")), "kept\n");
    leaves_nothing(&server, &api);
}

#[test]
fn a_server_is_not_ready_before_it_has_settled_what_was_left() {
    needs_root!();
    let Some(database) = database() else { return };
    // Where it will answer those who watch it must be known before it says so.
    let watched = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut server = TestServer::start(&[("database.url", &database.url_text()), ("server.metrics_listen", &watched)]);
    assert_eq!(plain(&watched, "/readyz").0, 200);
    server.terminate();
    let held = hold(database.url(), "BEGIN; LOCK TABLE environments");
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| server.start_again());
        let report = eventually("the server to answer those who watch it", || {
            let connected = std::net::TcpStream::connect(&watched);
            connected.map(|_| plain(&watched, "/readyz")).map_err(|error| error.to_string())
        });
        let (status, body) = report;
        let report: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &report["checks"]["recovery"]), (503, &json!("not done yet")), "{report}");
        assert_eq!((&report["checks"]["draining"], &report["checks"]["store"]), (&json!("ok"), &json!("ok")));
        assert_eq!(plain(&watched, "/healthz").0, 200);
        drop(held);
        starting.join().unwrap();
    });
    assert_eq!(plain(&watched, "/readyz").0, 200);
}

/// The modules of the tests, and those whose tests run on PostgreSQL besides.
#[test]
fn every_module_runs_on_both_databases_or_says_why_not() {
    let main = include_str!("main.rs");
    let modules = main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    // These hold no tests.
    let shared = ["api", "git_server", "objects", "program", "server", "toolchain"];
    let modules: BTreeSet<&str> = modules.filter(|module| !shared.contains(module)).collect();
    let rows = include_str!("stores.txt").lines().filter(|line| !line.starts_with('#'));
    let (mut named, mut chosen) = (BTreeSet::new(), BTreeSet::new());
    for row in rows {
        let mut words = row.split_whitespace();
        let (name, stores) = (words.next().unwrap(), words.next().unwrap());
        assert!(stores == "both" || (stores == "sqlite" && words.next().is_some()), "{row}");
        assert!(named.insert(name), "{row}");
        chosen.insert(name.split("::").next().unwrap());
    }
    let missing: Vec<_> = modules.difference(&chosen).collect();
    assert!(missing.is_empty(), "`stores.txt` does not name {missing:?}");
}
