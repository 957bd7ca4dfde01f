//! What is collected and what never is, and what a quota refuses, from the outside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{eventually, names, said, text, wait_for_file};
use crate::program::needs_root;
use crate::server::TestServer;

/// Grace and time limit of builds, for parts of a test that build nothing.
const SHORT: [(&str, &str); 3] = [("builds.time_limit", "2s"), ("git.time_limit", "2s"), ("collection.grace", "2s")];
const GRACE: Duration = Duration::from_secs(2);

/// Leaves what the marker says, in a layer of its own.
const SETUP: (&str, &str) = ("setup.sh", "echo made-by-$(cat marker) > made.txt\n");

/// Starts the server again with other settings.
fn restart(server: &mut TestServer, settings: &[(&str, &str)]) -> Api {
    server.terminate();
    for (key, value) in settings {
        server.set(key, value);
    }
    server.start_again();
    Api::of(server)
}

fn collect(api: &Api) -> Value {
    api.send("POST", "/stead/v1/collect", &[], b"").ok()
}

/// Writes the marker and builds.
fn build_with(api: &Api, project: &str, marker: &str) {
    api.put(project, "marker", marker);
    api.build(project);
}

/// The one directory that `kind` has for each workspace, and what is in it.
fn of_workspace(server: &TestServer, kind: &str) -> Vec<String> {
    let workspaces = names(server, kind).into_iter();
    workspaces.flat_map(|workspace| names(server, &format!("{kind}/{workspace}"))).collect()
}

/// The versions of the only project that lie on disk.
fn versions_on_disk(server: &TestServer) -> Vec<u32> {
    let workspaces = names(server, "projects").into_iter();
    let projects = workspaces.flat_map(|workspace| {
        let within = format!("projects/{workspace}");
        names(server, &within).into_iter().map(move |project| format!("{within}/{project}/versions"))
    });
    let mut found: Vec<u32> =
        projects.flat_map(|place| names(server, &place)).map(|name| name.parse().unwrap()).collect();
    found.sort_unstable();
    found
}

/// Bytes that no other number gives and that nothing compresses.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(step).collect()
}

fn tar(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, bytes) in files {
        let mut header = [0_u8; 512];
        let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, "0000644");
        put(108, "0000000");
        put(116, "0000000");
        put(124, &format!("{:011o}", bytes.len()));
        put(136, "00000000000");
        put(148, "        ");
        put(156, "0");
        put(257, "ustar");
        put(263, "00");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend_from_slice(&header);
        archive.extend_from_slice(bytes);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

#[test]
fn versions_beyond_those_kept_go_and_what_is_pinned_stays() {
    needs_root!();
    let mut server = TestServer::start(&[("projects.keep_versions", "2")]);
    let api = Api::of(&server);
    let project = api.environment("pin", &[SETUP]);
    let harness = api.post("/v1/harnesses", &json!({"name": "n", "base": "shell", "environment": project})).ok();
    let read = |previous: Option<&Value>, version: Value| {
        let mut body = json!({"input": "cat /env/pin/made.txt", "metadata": {"harness_id": harness["id"]}});
        if let Some(previous) = previous {
            body["previous_response_id"] = previous["id"].clone();
        }
        if !version.is_null() {
            body["metadata"]["stead_version"] = version;
        }
        body
    };
    build_with(&api, &project, "one");
    let pinned = api.ask(&read(None, Value::Null)).ok();
    assert_eq!(said(&pinned), "made-by-one\n");
    // The third reads what the fifth reads again, so they share a layer.
    for marker in ["two", "three", "four", "three"] {
        build_with(&api, &project, marker);
    }
    let report = collect(&api);
    assert_eq!((&report["versions"], &report["layers"]), (&json!(2), &json!(0)), "layers have their grace: {report}");
    assert_eq!(versions_on_disk(&server), [1, 4, 5]);
    assert_eq!(collect(&api)["versions"], 0);

    let base = format!("/v1/environments/{project}");
    let listed = api.get(&format!("{base}/versions")).ok();
    let listed = listed["versions"].as_array().unwrap();
    let states: Vec<&str> = listed.iter().map(|version| text(&version["status"])).collect();
    assert_eq!(states, ["ready", "unknown", "unknown", "ready", "ready"]);
    assert!(text(&listed[1]["error"]).is_empty() && listed[1]["stead_removed_at"].is_i64(), "{listed:#?}");
    for answer in [
        api.send("POST", &format!("{base}/versions/2/activate"), &[], b""),
        api.ask(&read(None, json!(2))),
        api.ask(&read(Some(&pinned), json!(3))),
    ] {
        let error = &answer.json()["error"];
        assert_eq!((answer.status, text(&error["code"])), (409, "environment_not_ready"), "{error}");
        assert!(text(&error["message"]).contains("removed"), "{error}");
    }

    // After the grace the layers of the versions that went have gone, too; those of the others are all there.
    let layers = of_workspace(&server, "layers").len();
    let api = restart(&mut server, &SHORT);
    std::thread::sleep(GRACE);
    let report = collect(&api);
    assert_eq!((&report["versions"], &report["layers"]), (&json!(0), &json!(1)), "only the second's: {report}");
    assert_eq!(of_workspace(&server, "layers").len(), layers - 1);
    let again = api.ask(&read(Some(&pinned), Value::Null)).ok();
    assert_eq!((said(&again).as_str(), &again["metadata"]["environment_version"]), ("made-by-one\n", &json!(1)));
    for (version, made) in [(4, "made-by-four\n"), (5, "made-by-three\n")] {
        assert_eq!(said(&api.ask(&read(None, json!(version))).ok()), made);
    }

    // By word: never the active one, nor one that a task reads.
    let remove = |version: u32| api.delete(&format!("/stead/v1/projects/{project}/versions/{version}"));
    let reading = api.ask(&json!({
        "input": "touch reading-one; while [ ! -e enough ]; do sleep 0.05; done; cat /env/pin/made.txt",
        "background": true, "previous_response_id": again["id"],
    }));
    wait_for_file(&server, "reading-one");
    for version in [5, 1] {
        let refused = remove(version);
        assert_eq!((refused.status, text(&refused.json()["error"]["code"])), (409, "version_in_use"), "{version}");
    }
    for environment in std::fs::read_dir(server.data().join("environments")).unwrap().flatten() {
        let work = environment.path().join("work");
        if work.join("reading-one").exists() {
            std::fs::write(work.join("enough"), "").unwrap();
        }
    }
    let last = api.ended(&reading.ok());
    assert_eq!(said(&last), "made-by-one\n");
    let ran = server.ran(&["project", "remove-version", "pin", "1"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(remove(1).ok()["removed_at"].is_i64(), "once more is no fault");
    assert_eq!(remove(9).status, 404);
    assert_eq!(versions_on_disk(&server), [4, 5]);
    let told = api.ask(&read(Some(&last), Value::Null));
    assert_eq!((told.status, text(&told.json()["error"]["code"])), (409, "environment_not_ready"));
    assert!(told.text().contains("`metadata.stead_version` moves it"), "{}", told.text());
    assert_eq!(said(&api.ask(&read(Some(&last), json!("active"))).ok()), "made-by-three\n");
}

#[test]
fn a_session_keeps_the_version_that_it_began_with_whatever_is_given_up_meanwhile() {
    needs_root!();
    let server = TestServer::start(&[("projects.keep_versions", "1"), ("sessions.idle_stop", "1s")]);
    let api = Api::of(&server);
    let project = api.environment("race", &[]);
    build_with(&api, &project, "0");
    let harness = api.post("/v1/harnesses", &json!({"name": "n", "base": "shell", "environment": project})).ok();
    // Two sessions begin with every version, in the moment in which the one before it may be given up. Each takes one of the
    // server's places, of which there are few more.
    let ready = std::sync::Barrier::new(3);
    let (began, given_up) = std::thread::scope(|scope| {
        let sessions: Vec<_> = (0..2)
            .map(|_| {
                let (api, ready, harness) = (api.clone(), &ready, &harness["id"]);
                scope.spawn(move || {
                    let body = json!({"input": "cat /env/race/marker", "metadata": {"harness_id": harness}});
                    let begin = |_| {
                        ready.wait();
                        api.ask(&body).ok()
                    };
                    (0..12).map(begin).collect::<Vec<Value>>()
                })
            })
            .collect();
        // Every version is given up as soon as the next one is there, unless a session was faster.
        let mut given_up = 0;
        for number in 1..=12 {
            ready.wait();
            build_with(&api, &project, &number.to_string());
            given_up += collect(&api)["versions"].as_u64().unwrap();
        }
        (sessions.into_iter().flat_map(|session| session.join().unwrap()).collect::<Vec<Value>>(), given_up)
    });
    // Deleted sessions hold nothing: what they held goes, what others hold stays.
    let (deleted, living): (Vec<_>, Vec<_>) = began.iter().enumerate().partition(|(index, _)| index % 3 == 0);
    for (_, response) in deleted {
        let session = text(&response["metadata"]["session_id"]);
        assert!(api.delete(&format!("/v1/sessions/{session}")).status < 300);
    }
    let given_up = given_up + collect(&api)["versions"].as_u64().unwrap();
    for (_, response) in &living {
        let version = response["metadata"]["environment_version"].as_u64().unwrap();
        assert_eq!(said(response), (version - 1).to_string());
        assert_eq!(said(&api.go_on(response, "cat /env/race/marker")), said(response), "version {version}");
    }
    let held: std::collections::BTreeSet<u64> =
        living.iter().map(|(_, response)| response["metadata"]["environment_version"].as_u64().unwrap()).collect();
    assert!(held.len() > 2, "sessions began on several versions: {held:?}");
    assert_eq!(versions_on_disk(&server).len() as u64, 13 - given_up);
    assert!(versions_on_disk(&server).len() <= held.len() + 1, "{held:?}: {:?}", versions_on_disk(&server));
}

#[test]
fn contents_that_nothing_names_go_after_the_grace_and_the_others_stay() {
    needs_root!();
    let server = TestServer::start(&SHORT);
    let api = Api::of(&server);
    let (kept, gone) = (api.environment("kept", &[]), api.environment("gone", &[("only-here", "of the other\n")]));
    let path = |name: &str| format!("/v1/environments/{kept}/files/{name}");
    let files = [("a", noise(1, 300_000)), ("b", noise(2, 900)), ("c", noise(3, 10)), ("same", noise(3, 10))];
    for (name, bytes) in &files {
        api.send("PUT", &path(name), &[], bytes).ok();
    }
    let blobs = |api: &Api| api.get("/stead/v1/usage").ok()["blobs"].as_u64().unwrap();
    assert_eq!(blobs(&api), 4, "identical contents are one");
    assert_eq!(collect(&api)["blobs"], 0);
    api.delete(&path("a")).ok();
    api.delete(&path("c")).ok();
    api.delete(&format!("/v1/environments/{gone}")).ok();
    assert_eq!(collect(&api)["blobs"], 0, "they are only marked");
    assert_eq!(blobs(&api), 4);
    std::thread::sleep(GRACE + Duration::from_millis(200));
    let report = collect(&api);
    assert_eq!((&report["blobs"], &report["bytes"]), (&json!(2), &json!(300_013)), "{report}");
    assert_eq!(blobs(&api), 2);
    for (name, bytes) in [&files[1], &files[3]] {
        assert_eq!(&api.get(&path(name)).body, bytes, "{name}");
    }
    // What has gone can come back.
    api.send("PUT", &path("a"), &[], &files[0].1).ok();
    assert_eq!(&api.get(&path("a")).body, &files[0].1);
}

#[test]
fn uploads_that_no_task_has_named_go_when_the_operator_says_so() {
    needs_root!();
    let server = TestServer::start(&[&SHORT[..], &[("collection.uploads", "1s")]].concat());
    let api = Api::of(&server);
    let upload = |name: &str| {
        let body = format!(
            "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n--b\r\nContent-Disposition: \
             form-data; name=\"file\"; filename=\"{name}\"\r\n\r\nof {name}\r\n--b--\r\n"
        );
        let kind = [("Content-Type", "multipart/form-data; boundary=b")];
        text(&api.send("POST", "/v1/files", &kind, body.as_bytes()).ok()["id"]).to_owned()
    };
    let (used, unused) = (upload("used"), upload("unused"));
    let harness = api.harness();
    let task = |file: &str| {
        let content = json!([{"type": "input_text", "text": "cat used"}, {"type": "input_file", "file_id": file}]);
        json!({"input": [{"role": "user", "content": content}], "metadata": {"harness_id": harness}})
    };
    assert_eq!(said(&api.ask(&task(&used)).ok()), "of used");
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(collect(&api)["uploads"], 1);
    assert_eq!(api.ask(&task(&unused)).status, 404);
    std::thread::sleep(GRACE + Duration::from_millis(200));
    assert_eq!(collect(&api)["blobs"], 1);
    assert_eq!(said(&api.ask(&task(&used)).ok()), "of used");
}

#[test]
fn nothing_that_an_import_brings_is_lost_to_a_collection() {
    needs_root!();
    let server =
        TestServer::start(&[("builds.time_limit", "3s"), ("git.time_limit", "3s"), ("collection.grace", "3s")]);
    let (over, began) = (AtomicBool::new(false), Instant::now());
    let removed: u64 = std::thread::scope(|scope| {
        let importers: Vec<_> = (0..2_u64)
            .map(|number| {
                let (api, over) = (Api::of(&server), &over);
                scope.spawn(move || {
                    let project = api.environment(&format!("import {number}"), &[]);
                    let mut rounds = 0_u64;
                    while began.elapsed() < Duration::from_secs(16) {
                        // Contents that both projects import, that are unnamed for longer than the grace and come again;
                        // and others that come once.
                        let phase = began.elapsed().as_secs() / 2 % 4;
                        let mut files: Vec<(String, Vec<u8>)> =
                            (0..30).map(|n| (format!("d/again-{n}"), noise(phase * 100 + n, 700))).collect();
                        files.push(("large".to_owned(), noise(phase, 200_000)));
                        rounds += 1;
                        let once = |n| (format!("once-{n}"), noise(1_000_000 * (number + 1) + rounds * 100 + n, 90));
                        files.extend((0..10).map(once));
                        let import = format!("/v1/environments/{project}/import?replace=1");
                        let done = api.send("POST", &import, &[("Content-Type", "application/x-tar")], &tar(&files));
                        assert_eq!(done.ok()["written"], 41);
                        for (name, bytes) in &files {
                            let read = api.get(&format!("/v1/environments/{project}/files/{name}"));
                            assert_eq!((read.status, &read.body), (200, bytes), "{name}, round {rounds}");
                        }
                    }
                    over.store(true, Ordering::SeqCst);
                    rounds
                })
            })
            .collect();
        let api = Api::of(&server);
        let mut removed = 0;
        while !over.load(Ordering::SeqCst) {
            removed += collect(&api)["blobs"].as_u64().unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
        let rounds: Vec<u64> = importers.into_iter().map(|importer| importer.join().unwrap()).collect();
        assert!(rounds.iter().all(|rounds| *rounds > 4), "{rounds:?}");
        removed
    });
    assert!(removed > 50, "the collections had something to do: {removed}");
}

#[test]
fn a_build_keeps_the_layers_that_it_takes_whatever_is_collected_meanwhile() {
    needs_root!();
    let times = [("builds.time_limit", "5s"), ("git.time_limit", "5s"), ("collection.grace", "5s")];
    let server = TestServer::start(&[&times[..], &[("projects.keep_versions", "1")]].concat());
    let api = Api::of(&server);
    let project = api.environment("again", &[SETUP]);
    let harness = api.harness();
    let (over, began) = (AtomicBool::new(false), Instant::now());
    let removed: u64 = std::thread::scope(|scope| {
        let (collector, over) = (api.clone(), &over);
        let collecting = scope.spawn(move || {
            let mut removed = 0;
            while !over.load(Ordering::SeqCst) {
                removed += collect(&collector)["layers"].as_u64().unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
            removed
        });
        // Each source comes again when its layer is about to go, going or gone.
        for round in 0.. {
            if began.elapsed() > Duration::from_secs(20) {
                break;
            }
            let marker = (round % 7).to_string();
            api.put(&project, "marker", &marker);
            let number = api.begin_build(&project);
            let record = api.ended_build(&project, number);
            if record["stead_failure"]["limit"] == "time" {
                // The machine is busy; nothing can be said about this round.
                continue;
            }
            assert_eq!(record["status"], "ready", "{record:#}");
            let body = json!({
                "input": "cat /env/again/made.txt", "metadata": {"harness_id": harness, "environment": project},
            });
            let response = api.ask(&body).ok();
            assert_eq!(said(&response), format!("made-by-{marker}\n"), "round {round}");
            api.delete(&format!("/v1/sessions/{}", text(&response["metadata"]["session_id"])));
        }
        over.store(true, Ordering::SeqCst);
        collecting.join().unwrap()
    });
    assert!(removed > 0, "the collections had layers to remove");
}

#[test]
fn a_collection_that_a_crash_cut_off_is_finished_or_begun_again() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let api = Api::of(&server);
    let project = api.environment("cut", &[SETUP]);
    for marker in ["one", "two", "three"] {
        build_with(&api, &project, marker);
    }
    api.put(&project, "gone", "to be removed\n");
    api.delete(&format!("/v1/environments/{project}/files/gone")).ok();
    let harness = api.harness();
    for setting in SHORT.iter().chain(&[("projects.keep_versions", "1")]) {
        server.set(setting.0, setting.1);
    }
    for (moment, runs) in
        [("collect.version.given_up", 1), ("collect.layer.removed", 1), ("collect.blobs.removed:2", 2)]
    {
        let api = restart(&mut server, &[("STEAD_CRASH_AT", moment)]);
        std::thread::sleep(GRACE);
        for run in 1..=runs {
            let answer = api.try_send("POST", "/stead/v1/collect", &[], b"");
            assert_eq!(answer.is_none(), run == runs, "{moment}: {answer:?}");
            std::thread::sleep(if run == runs { Duration::ZERO } else { GRACE + Duration::from_millis(200) });
        }
        server.wait_for_death();
        server.set("STEAD_CRASH_AT", "");
        server.start_again();
        let api = Api::of(&server);
        eventually("the removal to be finished", || match versions_on_disk(&server).as_slice() {
            [3] => Ok(()),
            other => Err(format!("{moment}: {other:?}")),
        });
        let layers = if runs == 1 && moment.contains("version") { 3 } else { 1 };
        eventually("the layers to be those that are named", || {
            let found = of_workspace(&server, "layers");
            if found.len() == layers { Ok(()) } else { Err(format!("{moment}: {found:?}")) }
        });
        let body = json!({
            "input": "cat /env/cut/made.txt", "metadata": {"harness_id": harness, "environment": project},
        });
        assert_eq!(said(&api.ask(&body).ok()), "made-by-three\n", "{moment}");
        assert_eq!(api.get(&format!("/v1/environments/{project}/files/marker")).text(), "three", "{moment}");
    }
    // Whatever was cut off where: what comes next finds everything it needs.
    let api = restart(&mut server, &[("builds.time_limit", "1m"), ("collection.grace", "1m")]);
    build_with(&api, &project, "four");
    assert_eq!(versions_on_disk(&server), [3, 4]);
}

#[test]
fn a_quota_refuses_whole_requests_by_name_and_keeps_nothing_of_them() {
    needs_root!();
    let server = TestServer::start(&[
        ("quotas.blobs", "1MiB"),
        ("quotas.versions", "1MiB"),
        ("quotas.projects", "2"),
        ("quotas.source_files", "3"),
    ]);
    let api = Api::of(&server);
    let (first, second) = (api.environment("first", &[]), api.environment("second", &[]));
    let refused = |answer: crate::api::Answer, detail: Value| {
        let body = answer.json();
        assert_eq!((answer.status, text(&body["error"]["code"])), (429, "quota_exhausted"), "{body}");
        assert_eq!(body["error"]["detail"], detail);
    };
    let third = api.post("/v1/environments", &json!({"name": "third"}));
    refused(third, json!({"quota": "projects", "max": 2, "used": 2}));

    let file = |name: &str| format!("/v1/environments/{first}/files/{name}");
    api.send("PUT", &file("a"), &[], &noise(1, 700_000)).ok();
    let full = json!({"quota": "blobs", "max_bytes": 1 << 20, "used_bytes": 700_000});
    refused(api.send("PUT", &file("b"), &[], &noise(2, 700_000)), full);
    assert_eq!(api.get(&file("b")).status, 404);
    let archive = tar(&[("c".to_owned(), noise(3, 200_000)), ("d".to_owned(), noise(4, 300_000))]);
    let import = format!("/v1/environments/{first}/import?replace=1");
    let tarred = [("Content-Type", "application/x-tar")];
    let full = json!({"quota": "blobs", "max_bytes": 1 << 20, "used_bytes": 700_000});
    refused(api.send("POST", &import, &tarred, &archive), full);
    let source = api.get(&format!("/v1/environments/{first}")).ok();
    assert_eq!(source["files"], json!({"count": 1, "bytes": 700_000}), "the source is as it was");
    assert_eq!(api.get(&file("a")).body, noise(1, 700_000));
    // What is there already takes no room, however often it comes.
    let same = ["a", "e", "f"].map(|name| (name.to_owned(), noise(1, 700_000)));
    api.send("POST", &import, &tarred, &tar(&same)).ok();

    let file = |name: &str| format!("/v1/environments/{second}/files/{name}");
    for name in ["one", "two", "three"] {
        api.send("PUT", &file(name), &[], b"").ok();
    }
    refused(api.send("PUT", &file("four"), &[], b""), json!({"quota": "source_files", "max": 3, "used": 3}));
    api.send("PUT", &file("three"), &[], b"").ok();
    api.delete(&file("two")).ok();

    api.send("PUT", &file("setup.sh"), &[], b"head -c 2000000 /dev/urandom > large\n").ok();
    let number = api.begin_build(&second);
    let record = api.ended_build(&second, number);
    assert_eq!(
        (&record["status"], &record["stead_failure"]["limit"]),
        (&json!("failed"), &json!("quota")),
        "{record:#}"
    );
    assert_eq!(of_workspace(&server, "layers"), [""; 0], "the layer that did not fit is gone");
    refused(
        api.post(&format!("/v1/environments/{first}/build"), &json!({})),
        json!({"quota": "versions", "max_bytes": 1 << 20, "used_bytes": 0}),
    );

    let ran = server.ran(&["usage", "--json"]);
    let usage: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(usage["projects"], json!({"used": 2, "quota": 2}), "{usage}");
    assert_eq!((&usage["blob_bytes"]["quota"], &usage["version_bytes"]["quota"]), (&json!(1 << 20), &json!(1 << 20)));
    assert!(usage["blob_bytes"]["used"].as_u64().unwrap() >= 700_000);
    assert!(server.ran(&["usage"]).stdout.contains("versions and layers"));
    assert!(server.ran(&["collect"]).stdout.starts_with("removed 0 versions"));
}
