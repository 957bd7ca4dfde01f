//! What a server says of itself: log lines, numbers, health.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::{Value, json};
use stead_testkit::database::{hold, on_postgres};

use crate::api::Api;
use crate::objects::{eventually, text, wait_for_file};
use crate::program::needs_root;
use crate::server::TestServer;

/// The log as objects; every line must be one.
fn lines(server: &TestServer) -> Vec<Value> {
    let log = server.log();
    log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn one_id_names_a_request_and_what_it_starts() {
    needs_root!();
    let server = TestServer::start(&[("log.format", "json"), ("log.level", "debug")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let body = json!({"input": "echo hello", "metadata": {"harness_id": harness}}).to_string();
    let headers = [("X-Request-Id", "mine-1"), ("Content-Type", "application/json")];
    let answer = api.send("POST", "/v1/responses", &headers, body.as_bytes());
    assert_eq!(answer.header("x-request-id"), Some("mine-1"));
    let response = answer.ok();
    let turn = text(&response["id"]).replace("resp_", "turn_");
    let session = text(&response["metadata"]["session_id"]).to_owned();
    let finished = eventually("the line of the request", || {
        let mut lines = lines(&server).into_iter();
        lines
            .find(|line| line["message"] == "request finished" && line["request.id"] == "mine-1")
            .ok_or_else(|| server.log())
    });
    for (field, value) in [
        ("level", json!("INFO")),
        ("http.method", json!("POST")),
        ("http.route", json!("/v1/responses")),
        ("http.status", json!(200)),
        ("bytes_received", json!(body.len())),
        ("bytes_sent", json!(answer.body.len())),
        ("whole", json!(true)),
    ] {
        assert_eq!(finished[field], value, "{field}: {finished:#}");
    }
    assert!(finished["duration_ms"].is_u64() && text(&finished["key.id"]).starts_with("key_"), "{finished:#}");
    assert!(text(&finished["workspace.id"]).starts_with("ws_"), "{finished:#}");

    // The task that drives the turn, the operation that makes its environment, and the launch of the sandbox.
    let of_request = |message: &str| {
        let mut lines = lines(&server).into_iter();
        let found = lines.find(|line| line["message"] == message && line["request.id"] == "mine-1");
        found.unwrap_or_else(|| panic!("no `{message}` of the request in\n{}", server.log()))
    };
    let ended = of_request("a turn has ended");
    assert_eq!((text(&ended["turn.id"]), text(&ended["session.id"])), (turn.as_str(), session.as_str()));
    assert!(text(&of_request("a sandbox was launched")["operation.id"]).starts_with("op_"));

    // An id that could be anything is not taken.
    let strange = api.send("GET", "/v1/uhp", &[("X-Request-Id", "a b")], b"");
    assert_eq!(strange.header("x-request-id").map(str::len), Some(32));
    // What failed says under which id.
    let refused = api.send("GET", "/v1/nothing", &[("X-Request-Id", "mine-2")], b"");
    assert_eq!((refused.status, refused.header("x-request-id")), (404, Some("mine-2")));
    eventually("the line of a read", || {
        let read = lines(&server).into_iter().find(|line| line["request.id"] == "mine-2");
        match read {
            Some(read) if read["level"] == "DEBUG" && read["http.route"] == "none" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    api.delete_sessions();
}

/// What must not be in the log, in whatever a caller may send it.
const MARK: &str = "hunter2secret";

#[test]
fn no_line_quotes_what_callers_send() {
    needs_root!();
    let server = TestServer::start(&[("log.format", "json"), ("log.level", "trace")]);
    let api = Api::of(&server);
    let marked = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        let body = body.replace("MARK", MARK);
        let path = path.replace("MARK", MARK);
        let headers: Vec<(&str, String)> =
            headers.iter().map(|(name, value)| (*name, value.replace("MARK", MARK))).collect();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        api.send(method, &path, &headers, body.as_bytes())
    };
    let json_body = [("Content-Type", "application/json")];
    let harness = api.harness();
    let project = api.environment("Quiet", &[]);
    // Headers, known and unknown, and a key that is none.
    marked(
        "GET",
        "/v1/environments?cursor=MARK&MARK=1",
        &[("X-Thing", "MARK"), ("Cookie", "MARK"), ("X-Request-Id", "MARK MARK")],
        "",
    );
    assert_eq!(Api::with_key(&server, MARK).get("/v1/environments").status, 401);
    assert_eq!(Api::with_key(&server, MARK).get("/metrics").status, 401);
    // Bodies: of a wrong type, with unknown members, no JSON at all, and too many of them.
    for body in [
        "\"MARK\"",
        "{\"MARK\":1}",
        "{\"name\":{\"MARK\":1}}",
        "MARK",
        "{\"name\":\"MARK\",\"slug\":\"MARK !\"}",
        "[\"MARK\"]",
    ] {
        marked("POST", "/v1/environments", &json_body, body);
        marked("POST", "/v1/harnesses", &json_body, body);
        marked("POST", "/stead/v1/keys", &json_body, body);
        marked("POST", "/v1/responses", &json_body, body);
        marked("PUT", &format!("/v1/environments/{project}"), &json_body, body);
    }
    // Paths, files and archives.
    for method in ["PUT", "GET", "PATCH", "DELETE", "MARK"] {
        marked(method, &format!("/v1/environments/{project}/files/MARK/a.txt"), &[], "MARK");
    }
    marked("GET", "/v1/environments/MARK", &[], "");
    marked("GET", "/MARK", &[], "");
    marked("POST", &format!("/v1/environments/{project}/import"), &[], "MARK");
    let git =
        json!({"git": {"url": "https://MARK:MARK@127.0.0.1:1/MARK.git", "token": "MARK", "ref": "MARK"}}).to_string();
    marked("POST", &format!("/v1/environments/{project}/import"), &json_body, &git);
    // A build that says it, and fails; a manifest with it.
    for (path, content) in
        [("requirements.txt", "MARK @ nonsense MARK\n"), ("setup.sh", "echo MARK; echo MARK >&2; exit 3\n")]
    {
        marked("PUT", &format!("/v1/environments/{project}/files/{path}"), &[], content);
        let build = api.begin_build(&project);
        api.ended_build(&project, build);
        marked("DELETE", &format!("/v1/environments/{project}/files/{path}"), &[], "");
    }
    // Tasks: what they are told, what they say, what they leave, and what kills them.
    for script in
        ["echo MARK; echo MARK >&2; echo MARK > out-MARK.txt", "MARK", "export A=MARK; kill -9 $$", "echo MARK; exit 7"]
    {
        let script = script.replace("MARK", MARK);
        api.run(&harness, &script);
    }
    api.delete_sessions();
    let log = server.log();
    assert!(log.contains("\"level\":\"DEBUG\""), "the log says nothing to look at");
    let quoting: Vec<&str> = log.lines().filter(|line| line.to_lowercase().contains(MARK)).collect();
    assert!(quoting.is_empty(), "{}", quoting.join("\n"));
    let own = std::fs::read_to_string(server.key_file()).unwrap();
    assert!(!log.contains(own.trim()), "the key that called is in the log");
    let lines = lines(&server);
    assert!(lines.iter().all(|line| text(&line["target"]).starts_with("stead") || text(&line["level"]) != "DEBUG"));
}

/// The documented metrics: name to type and labels.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let text = include_str!("../../../../docs/observability.md");
    let rows = text.lines().filter(|line| line.starts_with("| `stead_") || line.starts_with("| `process_"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let labels =
            cells[3].split(", ").map(|label| label.trim_matches('`').to_owned()).filter(|label| !label.is_empty());
        (cells[1].trim_matches('`').to_owned(), (cells[2].to_owned(), labels.collect()))
    })
    .collect()
}

/// A sample: its name, labels and value.
type Sample = (String, Vec<(String, String)>, f64);

/// What a scrape holds: the type of each metric, and every sample with its labels.
fn exported(text: &str) -> (BTreeMap<String, String>, Vec<Sample>) {
    let mut types = BTreeMap::new();
    let mut samples = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            types.insert(name.to_owned(), kind.to_owned());
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
            let labels = labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty());
            let labels = labels.map(|label| {
                let (name, value) = label.split_once("=\"").unwrap();
                (name.to_owned(), value.trim_end_matches('"').to_owned())
            });
            samples.push((name.to_owned(), labels.collect(), value.parse().unwrap()));
        }
    }
    (types, samples)
}

#[test]
fn numbers_are_those_that_are_documented_and_name_no_object() {
    needs_root!();
    let server = TestServer::start(&[("server.metrics_listen", "127.0.0.1:0")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let project = api.environment("Counted", &[("setup.sh", "echo built\n"), ("a.txt", "a")]);
    api.build(&project);
    api.put(&project, "a.txt", "b");
    api.build(&project);
    api.run(&harness, "head -c 1000 /dev/zero | tr '\\0' x; echo");
    assert_eq!(Api::with_key(&server, "stead_wrong").get("/v1/environments").status, 401);
    let reader = server.ran(&["key", "create", "reader", "--verb", "read,run,write,admin"]);
    let reader = Api::with_key(&server, reader.stdout.trim());
    assert_eq!(reader.get("/metrics").status, 403);
    assert_eq!(reader.send("POST", "/metrics", &[], b"").status, 405);

    let answer = api.get("/metrics");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(answer.status, 200);
    let (types, samples) = exported(&answer.text());
    let documented = documented();
    for (name, kind) in &types {
        assert_eq!(documented.get(name).map(|(kind, _)| kind), Some(kind), "{name}");
    }
    // What only happens when something goes wrong.
    let rare = ["stead_commit_retries_total"];
    let missing: Vec<_> =
        documented.keys().filter(|name| !types.contains_key(*name) && !rare.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "documented and not there: {missing:?}\n{}", answer.text());
    for (name, labels, _) in &samples {
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .filter(|base| types.contains_key(*base));
        let (_, known) = &documented[base.unwrap_or(name)];
        for (label, value) in labels.iter().filter(|(label, _)| label != "le") {
            assert!(known.contains(label), "{name} has `{label}`");
            let is_id = value
                .split(['/', '_'])
                .any(|part| part.len() == 32 && part.bytes().all(|byte| byte.is_ascii_hexdigit()));
            assert!(!is_id, "{name} {label}={value}");
        }
    }
    let value = |name: &str, wanted: &[(&str, &str)]| -> u64 {
        let fits = |labels: &[(String, String)]| {
            wanted.iter().all(|(name, value)| labels.iter().any(|label| label.0 == *name && label.1 == *value))
        };
        samples
            .iter()
            .filter(|(found, labels, _)| found == name && fits(labels))
            .map(|(_, _, value)| value)
            .sum::<f64>() as u64
    };
    assert_eq!(value("stead_turns_ended_total", &[("state", "completed")]), 1);
    assert_eq!(value("stead_turn_output_bytes_total", &[]), 1001);
    assert_eq!(value("stead_builds_ended_total", &[("state", "ready")]), 2);
    assert_eq!(value("stead_layer_cache_requests_total", &[]), 2);
    assert_eq!(value("stead_sessions", &[]), 1);
    assert_eq!(value("stead_environments", &[("state", "ready")]), 1);
    assert_eq!(
        value("stead_http_requests_total", &[("route", "/v1/responses"), ("method", "POST"), ("status", "200")]),
        1
    );
    assert_eq!(value("stead_use_case_duration_seconds_count", &[("use_case", "turn_start")]), 1);
    assert!(value("stead_sandbox_launches_total", &[("kind", "build"), ("outcome", "launched")]) >= 2);
    assert!(value("stead_http_refusals_total", &[("reason", "credential")]) >= 1);
    assert!(value("process_resident_memory_bytes", &[]) > 1_000_000 && value("stead_ready", &[]) == 1);
    // One transaction makes at least one commit durable.
    assert!(value("stead_store_commits_total", &[]) >= value("stead_store_groups_total", &[]));
    assert!(value("stead_store_groups_total", &[]) == value("stead_store_sync_duration_seconds_count", &[]));

    let open = open_address(&server);
    let (status, body) = plain(&open, "/metrics");
    assert!(status == 200 && body.contains("stead_turns_ended_total"), "{status} {body}");
    assert_eq!(plain(&open, "/healthz").0, 200);
    assert_eq!(plain(&open, "/v1/environments").0, 404);
    api.delete_sessions();
}

/// The address that asks for no key.
fn open_address(server: &TestServer) -> String {
    let log = server.log();
    let (_, rest) = log.split_once("numbers and health are served at http://").unwrap();
    rest.split([' ', '"', '\n']).next().unwrap().to_owned()
}

/// A request as a probe makes it, under a name of its own: status and body.
pub(crate) fn plain(address: &str, path: &str) -> (u16, String) {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nHost: pod.cluster.example\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn readiness_follows_the_store() {
    needs_root!();
    let server = TestServer::start(&[]);
    let address = server.url().trim_start_matches("http://").to_owned();
    assert_eq!(plain(&address, "/healthz").0, 200);
    let (status, body) = plain(&address, "/readyz");
    let report: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &report["status"], &report["checks"]["store"]), (200, &json!("ready"), &json!("ok")));

    // Somebody else writes and does not end.
    let held = hold(server.database(), if on_postgres() { "BEGIN; LOCK TABLE workspaces" } else { "BEGIN IMMEDIATE" });
    let (_, body) = eventually("a server that is not ready", || {
        let answer = plain(&address, "/readyz");
        if answer.0 == 503 { Ok(answer) } else { Err(answer.1) }
    });
    let report: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(report["checks"]["store"], "the database does not answer in time", "{report}");
    assert_eq!((&report["checks"]["provider"], &report["checks"]["data_directory"]), (&json!("ok"), &json!("ok")));
    assert_eq!(plain(&address, "/healthz").0, 200, "it lives all the same");
    drop(held);
    eventually("a server that is ready again", || {
        let answer = plain(&address, "/readyz");
        if answer.0 == 200 { Ok(()) } else { Err(answer.1) }
    });
}

#[test]
fn a_server_that_stops_is_not_ready_and_lives() {
    needs_root!();
    let mut server = TestServer::start(&[("server.metrics_listen", "127.0.0.1:0"), ("server.shutdown_grace", "20s")]);
    let (api, watched) = (Api::of(&server), open_address(&server));
    assert_eq!(plain(&watched, "/readyz").0, 200);
    let body = json!({"input": "touch begun; sleep 300", "metadata": {"harness_id": api.harness()}}).to_string();
    let waiting = std::thread::spawn(move || {
        let headers = [("Content-Type", "application/json")];
        api.try_send("POST", "/v1/responses", &headers, body.as_bytes())
    });
    wait_for_file(&server, "begun");
    server.signal(Signal::TERM);
    let report = eventually("a server that says that it stops", || {
        let (status, body) = plain(&watched, "/readyz");
        if status == 503 { Ok(body) } else { Err(body) }
    });
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["status"], &report["checks"]["draining"]), (&json!("not_ready"), &json!("the server stops")));
    assert_eq!((&report["checks"]["recovery"], &report["checks"]["store"]), (&json!("ok"), &json!("ok")));
    let (status, numbers) = plain(&watched, "/metrics");
    assert!(status == 200 && numbers.contains("\nstead_ready 0\n"), "{status} {numbers}");
    assert_eq!(plain(&watched, "/healthz").0, 200, "who restarts it now interrupts what it finishes");
    server.signal(Signal::TERM);
    assert_eq!(server.wait_for_end().0, Some(0));
    let _ = waiting.join().unwrap();
}
