//! Builds from the outside: steps side by side, limits with their reasons, the log as events.

use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{eventually, processes, text};
use crate::program::needs_root;
use crate::server::TestServer;

/// A backend of the project's own, which needs no registry, and which takes for ever.
const PYPROJECT: &str = "[project]\nname = \"slow\"\nversion = \"1\"\n\
    [build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n";
const BACKEND: &str = "import sys, time\n\
    def build_wheel(*args, **kwargs):\n    print('the wheel begins', flush=True)\n    time.sleep(600.571)\n";

#[test]
fn python_and_node_packages_install_side_by_side_and_the_first_failure_stops_the_other() {
    needs_root!();
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    // The Python step comes first and never ends: only a Node step beside it can fail the build.
    let id = api.environment(
        "two at once",
        &[
            ("pyproject.toml", PYPROJECT),
            ("backend.py", BACKEND),
            (
                "package.json",
                r#"{"name": "a", "version": "1.0.0", "scripts": {"install": "echo node begins; sleep 1; exit 3"}}"#,
            ),
        ],
    );
    let version = api.begin_build(&id);
    let record = api.ended_build(&id, version);
    assert_eq!(record["status"], "failed", "{record:#}");
    let error = text(&record["error"]);
    assert!(error.contains("npm install") && error.contains("exit status 3"), "{error}");
    assert_eq!(record["stead_failure"], json!({"kind": "step"}));
    let log = text(&record["log"]);
    assert!(log.contains("\nnode | ") && log.contains("\npython | "), "{log}");
    assert_eq!(processes(&server), Vec::<String>::new());
}

#[test]
fn a_build_has_one_time_limit_and_says_which_limit_ended_it() {
    needs_root!();
    let settings = [
        ("builds.time_limit", "16s"),
        ("builds.memory", "96MiB"),
        ("builds.processes", "40"),
        ("builds.disk", "20MiB"),
    ];
    let server = TestServer::start(&settings);
    let api = Api::of(&server);
    let id = api.environment(
        "limits",
        &[("package.json", r#"{"name": "a", "version": "1.0.0", "scripts": {"install": "sleep 4"}}"#)],
    );
    // Two steps that each keep within the limit, and together do not; the first one's own work has all the rest.
    api.put(&id, "setup.sh", "echo begun; sleep 14; echo too late");
    let failed = |script: Option<&str>| {
        if let Some(script) = script {
            api.send("DELETE", &format!("/v1/environments/{id}/files/package.json"), &[], b"");
            api.put(&id, "setup.sh", script);
        }
        let version = api.begin_build(&id);
        let record = api.ended_build(&id, version);
        assert_eq!(
            (&record["status"], &record["stead_failure"]["kind"]),
            (&json!("failed"), &json!("limit")),
            "{record:#}"
        );
        record
    };
    let record = failed(None);
    assert_eq!(record["stead_failure"]["limit"], "time");
    let late = "the build took longer than the 16 seconds that this server gives a build (builds.time_limit); setup.sh was at work";
    assert_eq!(record["error"], late);
    assert!(text(&record["log"]).contains("begun") && !text(&record["log"]).contains("too late"));
    let record = failed(Some("python3 -c 'x = b\"x\" * (400 << 20)'"));
    assert_eq!(record["stead_failure"]["limit"], "memory", "{record:#}");
    // One file that is cut off, whether the script minds or goes on; and many.
    for script in [
        "set -e; dd if=/dev/zero of=big bs=1M count=100",
        "dd if=/dev/zero of=big bs=1M count=100; true",
        "for n in $(seq 60); do dd if=/dev/zero of=file$n bs=1M count=1; done; sync; sleep 1",
    ] {
        let record = failed(Some(script));
        assert_eq!(record["stead_failure"]["limit"], "disk", "{record:#}");
    }
    let record =
        failed(Some("python3 -c 'import subprocess; [subprocess.Popen([\"sleep\", \"60\"]) for _ in range(100)]'"));
    assert_eq!(record["stead_failure"]["limit"], "processes", "{record:#}");
    assert_eq!(processes(&server), Vec::<String>::new());
}

#[test]
fn a_layer_of_what_is_not_pinned_grows_old() {
    needs_root!();
    let server = TestServer::start(&[("builds.layer_age", "1s")]);
    let api = Api::of(&server);
    let id = api.environment("ages", &[("package.json", r#"{"name": "a", "version": "1.0.0"}"#)]);
    let log = |api: &Api| text(&api.build(&id)["log"]).to_owned();
    assert!(log(&api).contains("npm install (package.json): installing"));
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let again = log(&api);
    assert!(
        again.contains("is too old for unpinned packages") && again.contains("npm install (package.json): installing"),
        "{again}"
    );
    // What a lock pins never grows old.
    api.put(&id, "package-lock.json", r#"{"name": "a", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "a", "version": "1.0.0"}}}"#);
    log(&api);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(log(&api).contains("nothing to install"));
}

/// The events of a stream, each with its id, kind and data.
fn events(body: &str) -> Vec<(String, String, Value)> {
    let field = |block: &str, name: &str| {
        block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
    };
    let blocks = body.split("\n\n").filter(|block| block.contains("event:"));
    blocks
        .map(|block| {
            let data = serde_json::from_str(&field(block, "data:")).unwrap();
            (field(block, "id:"), field(block, "event:"), data)
        })
        .collect()
}

#[test]
fn a_log_is_followed_as_events_and_goes_on_where_a_reader_left() {
    needs_root!();
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    let id = api.environment(
        "told",
        &[("setup.sh", "echo one; sleep 1; printf '\\342\\202'; sleep 0.2; printf '\\254\\n'; echo two")],
    );
    let version = api.begin_build(&id);
    let path = format!("/stead/v1/projects/{id}/builds/{version}/log");
    let accept = ("Accept", "text/event-stream");
    let answer = api.send("GET", &path, &[accept], b"");
    let all = events(&String::from_utf8(answer.body).unwrap());
    let said = |events: &[(String, String, Value)]| -> String {
        events.iter().filter(|(_, kind, _)| kind == "log").map(|(_, _, data)| text(&data["text"])).collect()
    };
    let log = said(&all);
    assert!(log.contains("one\n") && log.contains("\u{20ac}\ntwo\n") && !log.contains('\u{fffd}'), "{log}");
    assert!(all.iter().any(|(_, kind, data)| kind == "build" && data["stage"] == "setup.sh"), "{all:?}");
    let (_, kind, end) = all.last().unwrap();
    assert_eq!((kind.as_str(), &end["state"]), ("end", &json!("ready")));

    let (seen, _, _) = all.iter().find(|(_, kind, data)| kind == "log" && text(&data["text"]).contains("one")).unwrap();
    let answer = api.send("GET", &path, &[accept, ("Last-Event-ID", seen)], b"");
    let rest = said(&events(&String::from_utf8(answer.body).unwrap()));
    assert!(!rest.contains("one\n") && log.ends_with(&rest) && rest.contains("two\n"), "{rest}");
    let refused = api.send("GET", &path, &[accept, ("Last-Event-ID", "x")], b"");
    assert_eq!(refused.status, 400);
}

#[test]
fn builds_of_a_workspace_wait_in_line_and_can_be_cancelled_there() {
    needs_root!();
    let server = TestServer::start(&[("builds.slots", "1")]);
    let api = Api::of(&server);
    let ids = ["first", "second"].map(|name| api.environment(name, &[("setup.sh", "sleep 600.572")]));
    let versions = ids.each_ref().map(|id| api.begin_build(id));
    eventually("the first build's script", || {
        let record = api.get(&format!("/v1/environments/{}/builds/{}", ids[0], versions[0])).ok();
        if record["stage"] == "setup.sh" { Ok(()) } else { Err(record.to_string()) }
    });
    let waits = api.get(&format!("/v1/environments/{}/builds/{}", ids[1], versions[1])).ok();
    assert_eq!((&waits["status"], &waits["stage"]), (&json!("building"), &json!("waiting")));
    for (id, version) in ids.iter().zip(versions).rev() {
        api.send("POST", &format!("/stead/v1/projects/{id}/builds/{version}/cancel"), &[], b"").ok();
        let record = api.ended_build(id, version);
        assert_eq!((&record["error"], &record["stead_failure"]["kind"]), (&json!("cancelled"), &json!("cancelled")));
    }
    assert_eq!(processes(&server), Vec::<String>::new());
}

#[test]
fn a_cancel_that_is_taken_ends_the_build_however_late_it_comes() {
    needs_root!();
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    let script = "for a in $(seq 20); do mkdir d$a; (cd d$a && touch $(seq 1000)); done; echo DONE";
    let id = api.environment("late", &[("setup.sh", script)]);
    let mut told = 0;
    for _ in 0..6 {
        let version = api.begin_build(&id);
        let path = format!("/v1/environments/{id}/builds/{version}");
        eventually("the end of the script", || {
            let record = api.get(&path).ok();
            let done = text(&record["log"]).contains("DONE") || record["status"] != "building";
            if done { Ok(()) } else { Err(record.to_string()) }
        });
        let answer = api.send("POST", &format!("/stead/v1/projects/{id}/builds/{version}/cancel"), &[], b"").ok();
        let record = api.ended_build(&id, version);
        let environment = api.get(&format!("/v1/environments/{id}")).ok();
        if answer["state"] == "ready" {
            // Too late, and the answer said so.
            assert_eq!(record["status"], "ready", "{record}");
        } else {
            told += 1;
            assert_eq!((&record["status"], &record["error"]), (&json!("failed"), &json!("cancelled")), "{record}");
            assert_ne!(environment["version"], version, "{environment}");
        }
    }
    assert!(told > 0, "no cancel came in time");
}

#[test]
fn a_workspace_at_its_quota_gets_room_by_deleting_a_project() {
    needs_root!();
    let server = TestServer::start(&[("quotas.versions", "20MiB")]);
    let api = Api::of(&server);
    let files = [("setup.sh", "head -c 15000000 /dev/zero > big")];
    let first = api.environment("first", &files);
    api.build(&first);
    let second = api.environment("second", &files);
    let version = api.begin_build(&second);
    let record = api.ended_build(&second, version);
    assert_eq!(record["stead_failure"], json!({"kind": "limit", "limit": "quota"}), "{record:#}");
    api.send("DELETE", &format!("/v1/environments/{first}"), &[], b"").ok();
    api.build(&second);
}

#[test]
fn a_failure_says_why_in_the_installers_own_words() {
    needs_root!();
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    let id = api.environment("why", &[("setup.sh", "echo begun; echo 'error: the widget is missing' >&2; exit 4")]);
    let version = api.begin_build(&id);
    let record = api.ended_build(&id, version);
    assert_eq!(record["error"], "setup.sh failed with exit status 4: error: the widget is missing");
}

#[test]
fn the_end_of_each_build_has_a_line_that_names_it() {
    needs_root!();
    let server = TestServer::start(&[("log.format", "json"), ("log.level", "debug")]);
    let api = Api::of(&server);
    let id = api.environment("told", &[("setup.sh", "exit 3\n")]);
    let asked = |request: &str| {
        let path = format!("/v1/environments/{id}/build");
        let answer = api.send("POST", &path, &[("X-Request-Id", request)], b"");
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    asked("fails");
    api.ended_build(&id, 1);
    api.put(&id, "setup.sh", "sleep 600.572\n");
    asked("hangs");
    eventually("a step at work", || {
        if processes(&server).iter().any(|line| line.contains("600.572")) { Ok(()) } else { Err(server.log()) }
    });
    api.send("POST", &format!("/stead/v1/projects/{id}/builds/2/cancel"), &[], b"").ok();
    api.ended_build(&id, 2);

    let line = |message: &str, request: &str| -> Value {
        eventually(message, || {
            let log = server.log();
            let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let found: Vec<Value> =
                lines.filter(|line| line["message"] == message && line["request.id"] == request).collect();
            found.into_iter().next().ok_or(log)
        })
    };
    for (request, number, failure) in [("fails", 1, "step"), ("hangs", 2, "cancelled")] {
        let ended = line("a build has ended", request);
        assert_eq!((&ended["project.id"], &ended["build.number"]), (&json!(id), &json!(number)), "{ended:#}");
        assert_eq!((&ended["build.state"], &ended["build.failure"]), (&json!("failed"), &json!(failure)), "{ended:#}");
        assert!(ended["duration_ms"].is_u64(), "{ended:#}");
        for message in ["a sandbox was launched", "a sandbox has ended"] {
            let of_sandbox = line(message, request);
            assert_eq!(
                (&of_sandbox["project.id"], &of_sandbox["build.number"]),
                (&json!(id), &json!(number)),
                "{message}"
            );
        }
        let exit = line("a sandbox has ended", request)["exit"].to_string();
        assert!(exit.starts_with("\"signal ") || exit.starts_with("\"status "), "{exit}");
    }
}
