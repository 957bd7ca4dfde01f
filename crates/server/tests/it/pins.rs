//! Versions are pinned: what a turn reads does not change under it, and what need not be installed again is not.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{eventually, names, said, text, wait_for_file};
use crate::program::needs_root;
use crate::server::TestServer;
use crate::toolchain;

/// Says what the project's tree comes to: names, modes, times and bytes.
const HASH: &str =
    "cd /env/pin && { find . -printf '%p %m %T@ %s\\n' | sort; find . -type f | sort | xargs sha256sum; } | sha256sum";

/// The log of a build.
fn log(record: &Value) -> &str {
    text(&record["log"])
}

#[test]
fn a_turn_sees_one_version_whatever_happens_to_the_project() {
    needs_root!();
    let server = TestServer::start(&[("sessions.network", "disabled")]);
    let api = Api::of(&server);
    let setup = "echo made-by-$(cat marker) > made.txt\n";
    let project = api.environment("pin", &[("marker", "one"), ("lib/same.py", "x = 1\n"), ("setup.sh", setup)]);
    assert_eq!(api.build(&project)["version"], 1);
    let harness = api.harness();

    let looping = format!(
        "touch looping-$N; while [ ! -e done-$N ]; do ( {HASH} ); sleep 0.05; done; cat made.txt /env/pin/made.txt"
    );
    let looping = |n: u32| format!("N={n}; touch made.txt; {looping}");
    let begun = api.ask(&json!({
        "input": looping(1), "background": true, "metadata": {"harness_id": harness, "environment": project},
    }));
    let begun = begun.ok();
    wait_for_file(&server, "looping-1");
    // A second client edits, rebuilds and activates back and forth.
    api.put(&project, "marker", "two");
    api.put(&project, "lib/new.py", "y = 2\n");
    api.delete(&format!("/v1/environments/{project}/files/lib/same.py")).ok();
    assert_eq!(api.build(&project)["version"], 2);
    for number in [1, 2] {
        api.send("POST", &format!("/v1/environments/{project}/versions/{number}/activate"), &[], b"").ok();
    }
    let other = api.ask(&json!({
        "input": "cat /env/pin/made.txt; ls /env/pin/lib", "metadata": {"harness_id": harness, "environment": project},
    }));
    let other = other.ok();
    assert_eq!(
        (said(&other).as_str(), &other["metadata"]["environment_version"]),
        ("made-by-two\nnew.py\n", &json!(2))
    );
    std::thread::sleep(Duration::from_millis(300));
    finish(&server, "done-1");
    let first = api.ended(&begun);
    let hashes = unchanged(&first, "made-by-one");
    assert_eq!(first["metadata"]["environment_version"], 1);

    // Later turns keep the pin until the caller moves it.
    let next = api.go_on(&first, &format!("{HASH}; cat /env/pin/marker"));
    assert_eq!((said(&next), &next["metadata"]["environment_version"]), (format!("{hashes}\none"), &json!(1)));
    let moved = api.ask(&json!({
        "input": "cat /env/pin/marker", "previous_response_id": next["id"], "metadata": {"stead_version": "active"},
    }));
    let moved = moved.ok();
    assert_eq!((said(&moved).as_str(), &moved["metadata"]["environment_version"]), ("two", &json!(2)));
    let kept = api.go_on(&moved, "cat /env/pin/marker");
    assert_eq!((said(&kept).as_str(), &kept["metadata"]["environment_version"]), ("two", &json!(2)));
    let back = api.ask(&json!({
        "input": looping(2), "background": true, "previous_response_id": kept["id"], "metadata": {"stead_version": 1},
    }));
    let back = back.ok();
    wait_for_file(&server, "looping-2");
    // The project is deleted under the turn: it reads on.
    api.delete(&format!("/v1/environments/{project}")).ok();
    assert_eq!(api.get(&format!("/v1/environments/{project}")).status, 404);
    std::thread::sleep(Duration::from_millis(500));
    finish(&server, "done-2");
    assert_eq!(unchanged(&api.ended(&back), "made-by-one"), hashes);
    let after = api.ask(&json!({"input": "true", "previous_response_id": back["id"]}));
    let refusal = &after.json()["error"];
    assert_eq!(
        (after.status, &refusal["code"], &refusal["param"]),
        (404, &json!("environment_not_found"), &json!(null))
    );
    let told = text(&refusal["message"]);
    assert!(told.contains("the session has read") && told.contains("`metadata.environment`"), "{told}");
    // Reading nothing is a way on, for later tasks as well.
    let script = "printf %s ${PROJECT_ROOT-none}; ls /env 2>/dev/null";
    let named = json!({"input": script, "previous_response_id": back["id"], "metadata": {"environment": ""}});
    let detached = api.ask(&named).ok();
    assert_eq!((said(&detached).as_str(), &detached["metadata"]["environment_version"]), ("none", &json!(null)));
    assert_eq!(said(&api.go_on(&detached, script)), "none");
    let session = text(&first["metadata"]["session_id"]);
    let turns = api.get(&format!("/v1/sessions/{session}/turns")).ok();
    let read: Vec<&Value> =
        turns["turns"].as_array().unwrap().iter().map(|turn| &turn["environment_version"]).collect();
    assert_eq!(read, [&json!(1), &json!(1), &json!(2), &json!(2), &json!(1), &json!(null), &json!(null)]);
    // Nothing reads the deleted project any more, so its versions go.
    eventually("the versions of a deleted project to go", || {
        let workspaces = names(&server, "projects").into_iter();
        let left: Vec<String> =
            workspaces.flat_map(|workspace| names(&server, &format!("projects/{workspace}"))).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

/// Lets a looping turn end.
fn finish(server: &TestServer, name: &str) {
    let looping = name.replace("done", "looping");
    for environment in std::fs::read_dir(server.data().join("environments")).unwrap().flatten() {
        let work = environment.path().join("work");
        if work.join(&looping).exists() {
            std::fs::write(work.join(name), "").unwrap();
        }
    }
}

/// The one hash that a turn has seen, many times.
fn unchanged(response: &Value, made: &str) -> String {
    let said = said(response);
    let mut lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.pop(), Some(made), "{response}");
    assert!(lines.len() > 3, "{said}");
    let different: BTreeSet<&str> = lines.iter().copied().collect();
    assert_eq!(different.len(), 1, "{said}");
    lines[0].to_owned()
}

#[test]
fn unchanged_manifests_install_nothing_and_an_edit_is_there_at_once() {
    needs_root!();
    let server = TestServer::start(&[("sessions.network", "disabled")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let files = [
        ("requirements.txt", "# nothing\n"),
        ("run.py", "print('one')\n"),
        ("package.json", "{\"name\": \"p\", \"version\": \"1.0.0\"}\n"),
    ];
    let project = api.environment("again", &files);
    let first = api.build(&project);
    assert!(log(&first).contains("installing"), "{}", log(&first));
    let second = api.build(&project);
    assert!(log(&second).contains("nothing to install") && !log(&second).contains(": installing"), "{}", log(&second));
    api.put(&project, "run.py", "print('two')\n");
    let began = Instant::now();
    let third = api.build(&project);
    let took = began.elapsed();
    assert!(!log(&third).contains(": installing"), "{}", log(&third));
    assert!(took < Duration::from_secs(3), "a rebuild after an edit took {took:?}");
    let run = api.ask(&json!({
        "input": "which python | head -1; python /env/again/run.py", "metadata": {"harness_id": harness, "environment": project},
    }));
    assert_eq!(said(&run.ok()), "/env/again/.venv/bin/python\ntwo\n");
    // A fresh build installs whatever there is.
    let fresh = api.send("POST", &format!("/v1/environments/{project}/build?fresh=1"), &[], b"").ok();
    let fresh = api.ended_build(&project, fresh["version"].as_u64().unwrap());
    assert!(log(&fresh).contains(": installing"), "{}", log(&fresh));
}

#[test]
fn a_project_that_installs_itself_reinstalls_itself_alone() {
    needs_root!();
    let server = toolchain::networked(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    let pyproject = "[build-system]\nrequires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"\n\
        [project]\nname = \"selfish\"\nversion = \"1.0\"\ndependencies = [\"iniconfig==2.0.0\"]\n\
        [tool.setuptools]\npackages = [\"selfish\"]\n";
    let project = api.environment("selfish", &[("pyproject.toml", pyproject), ("selfish/__init__.py", "V = 1\n")]);
    let first = api.build(&project);
    let names: Vec<&str> = first["packages"].as_array().unwrap().iter().map(|package| text(&package["name"])).collect();
    assert!(names.contains(&"iniconfig") && names.contains(&"selfish"), "{names:?}");
    let again = api.build(&project);
    assert!(!log(&again).contains(": installing"), "{}", log(&again));
    api.put(&project, "selfish/__init__.py", "V = 2\n");
    let edited = api.build(&project);
    let installing: Vec<&str> = log(&edited).lines().filter(|line| line.ends_with(": installing")).collect();
    assert_eq!(installing.len(), 1, "{}", log(&edited));
    assert!(log(&edited).contains("nothing to install"), "{}", log(&edited));
    assert!(
        !log(&edited).contains("+ iniconfig") && !log(&edited).contains("Collecting iniconfig"),
        "{}",
        log(&edited)
    );
    let run = api.ask(&json!({
        "input": "python -c 'import selfish, iniconfig; print(selfish.V, selfish.__file__.startswith(\"/env/selfish/\"))'",
        "metadata": {"harness_id": harness, "environment": project},
    }));
    assert_eq!(said(&run.ok()), "2 True\n");
}
