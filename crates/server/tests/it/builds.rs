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
    let settings = [("builds.time_limit", "12s"), ("builds.memory", "96MiB"), ("builds.processes", "40")];
    let server = TestServer::start(&settings);
    let api = Api::of(&server);
    let id = api.environment(
        "limits",
        &[("package.json", r#"{"name": "a", "version": "1.0.0", "scripts": {"install": "sleep 7"}}"#)],
    );
    // Two steps that each keep within the limit, and together do not.
    api.put(&id, "setup.sh", "echo begun; sleep 7; echo too late");
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
    assert!(
        text(&record["error"]).contains("setup.sh was at work when the build reached its time limit of 12 seconds")
    );
    assert!(text(&record["log"]).contains("begun") && !text(&record["log"]).contains("too late"));
    let record = failed(Some("python3 -c 'x = b\"x\" * (400 << 20)'"));
    assert_eq!(record["stead_failure"]["limit"], "memory", "{record:#}");
    let record = failed(Some("for n in $(seq 100); do sleep 1 & done; wait"));
    assert_eq!(record["stead_failure"]["limit"], "processes", "{record:#}");
    assert_eq!(processes(&server), Vec::<String>::new());
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
