//! Every refusal about an environment and its files (UHP §5), each with its envelope, and each leaving the source as it was, byte
//! for byte.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::{Answer, Api, Framing};
use crate::objects::text;
use crate::program::needs_root;
use crate::server::TestServer;

const JUNK: &[u8] = include_bytes!("../../../../tests/field-cases/C020-not-an-archive.bin");
const LYING: &[u8] = include_bytes!("../../../../tests/field-cases/C012-lying.zip");
const ENCRYPTED: &[u8] = include_bytes!("../../../../tests/field-cases/C022-encrypted.zip");
/// What `limits.file` and `limits.import` are here, in bytes.
const FILE: usize = 64 << 10;
const IMPORT: usize = 1 << 20;

/// A source as its reader finds it: the listing, and the bytes of every file.
#[derive(Debug, PartialEq, Eq)]
struct Source {
    listing: Value,
    files: BTreeMap<String, Vec<u8>>,
}

impl Source {
    fn of(api: &Api, id: &str) -> Self {
        let listing = api.get(&format!("/v1/environments/{id}/files")).ok();
        let entries = listing["entries"].as_array().unwrap();
        let files = entries.iter().filter(|entry| entry["dir"] == false).map(|entry| {
            let path = text(&entry["path"]);
            let read = api.get(&format!("/v1/environments/{id}/files/{path}"));
            assert_eq!(read.status, 200, "{path}");
            (path.to_owned(), read.body)
        });
        Self { files: files.collect(), listing }
    }
}

/// What a refusal says: status, code and param.
type Expected<'a> = (u16, &'a str, Option<&'a str>);

fn check(answer: &Answer, (status, code, param): Expected<'_>, what: &str) -> Value {
    let body = answer.json();
    assert_eq!(answer.status, status, "{what}: {body}");
    assert_eq!(answer.header("uhp-version"), Some("2026-09-28"), "{what}");
    let error = body["error"].as_object().unwrap();
    let keys: Vec<&str> = error.keys().map(String::as_str).collect();
    assert_eq!(keys.len(), 5, "{what}: {keys:?}");
    for key in ["type", "code", "message", "param", "detail"] {
        assert!(keys.contains(&key), "{what} lacks {key}");
    }
    let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
    assert_eq!((&error["type"], &error["code"]), (&json!(kind), &json!(code)), "{what}");
    assert_eq!(error["param"], json!(param), "{what}");
    let message = text(&error["message"]);
    assert!(!message.is_empty() && !message.contains("/tmp/") && !message.contains("blobs/"), "{what}: {message}");
    body["error"].clone()
}

/// An environment with a few files, and a caller that checks after each refusal that they are as they were.
struct Scene {
    api: Api,
    id: String,
    before: Source,
}

impl Scene {
    fn new(api: Api, name: &str) -> Self {
        let id = api.environment(name, &[("run.py", "print(1)\n"), ("data/a.bin", "\0\u{1}\u{2}"), ("empty.txt", "")]);
        api.post(&format!("/v1/environments/{id}/directories"), &json!({"path": "hollow"})).ok();
        let before = Source::of(&api, &id);
        assert_eq!((before.files.len(), before.listing["entries"].as_array().unwrap().len()), (3, 5));
        Self { api, id, before }
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/environments/{}{rest}", self.id)
    }

    fn refused(&self, answer: &Answer, expected: Expected<'_>, what: &str) -> Value {
        let error = check(answer, expected, what);
        assert_eq!(Source::of(&self.api, &self.id), self.before, "{what} changed the source");
        error
    }

    fn send(&self, method: &str, rest: &str, body: &[u8], expected: Expected<'_>) -> Value {
        let answer = self.api.send(method, &self.path(rest), &[], body);
        self.refused(&answer, expected, &format!("{method} {rest}"))
    }
}

fn start() -> TestServer {
    TestServer::start(&[
        ("limits.file", "64KiB"),
        ("limits.import", "1MiB"),
        ("limits.import_expanded", "2MiB"),
        ("sessions.network", "disabled"),
    ])
}

#[test]
fn paths_that_lead_out_or_nowhere_change_nothing() {
    needs_root!();
    let server = start();
    let scene = Scene::new(Api::of(&server), "paths");
    let invalid = (422, "environment_invalid", Some("path"));
    for path in [
        "..%2Fescape.txt",
        "%2e%2e/escape.txt",
        "../escape.txt",
        "a/../../escape.txt",
        "a%2f..%2f..%2fescape.txt",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
        "..%5Cescape.txt",
        "a%5C..%5C..%5Cescape",
        "C:%5Cescape",
        "%252e%252e/escape",
        "a//b",
        "./a",
        "nul%00byte",
        "line%0Abreak",
        "%ff",
    ] {
        for method in ["PUT", "GET", "DELETE"] {
            scene.send(method, &format!("/files/{path}"), b"x", invalid);
        }
    }
    for (method, path) in
        [("PUT", "data"), ("PUT", "data/"), ("PUT", "hollow"), ("PUT", "new/"), ("PUT", "run.py/below")]
    {
        scene.send(method, &format!("/files/{path}"), b"x", invalid);
    }
    for path in ["data", "hollow"] {
        scene.send("GET", &format!("/files/{path}"), b"", (404, "file_not_found", Some("path")));
    }
    for path in ["../out", "/abs", "a/../../out", "", "run.py", "run.py/below", "a\\..\\..\\out"] {
        let answer = scene.api.post(&scene.path("/directories"), &json!({ "path": path }));
        scene.refused(&answer, invalid, path);
    }
    for (method, path) in [("GET", "missing.txt"), ("DELETE", "missing.txt"), ("GET", "run.py2"), ("DELETE", "data/a")]
    {
        scene.send(method, &format!("/files/{path}"), b"", (404, "file_not_found", Some("path")));
    }
}

#[test]
fn bodies_over_a_limit_and_archives_that_are_none_change_nothing() {
    needs_root!();
    let server = start();
    let scene = Scene::new(Api::of(&server), "bodies");
    let zeros = vec![0; IMPORT + 1];
    for framing in [Framing::Length, Framing::Chunked] {
        for (path, body, most) in [
            ("/files/run.py", &zeros[..=FILE], FILE),
            ("/files/new/large.bin", &zeros[..], FILE),
            ("/import?replace=1", &zeros[..], IMPORT),
        ] {
            let method = if path.starts_with("/files") { "PUT" } else { "POST" };
            let answer = scene.api.open(method, &scene.path(path), &[], body, framing).unwrap().finish().unwrap();
            let error = scene.refused(&answer, (413, "file_too_large", None), &format!("{framing:?} {path}"));
            assert_eq!(error["detail"]["max_bytes"], most, "{framing:?} {path}");
        }
    }
    // Just at the limit is within it.
    let exact = scene.api.send("PUT", &scene.path("/files/exact.bin"), &[], &zeros[..FILE]);
    assert_eq!(exact.status, 200, "{}", exact.text());
    assert_eq!(scene.api.delete(&scene.path("/files/exact.bin")).status, 200);

    let invalid = (422, "environment_invalid", None);
    for replace in ["", "?replace=1"] {
        for (name, body) in [("junk", JUNK), ("nothing", b"".as_slice()), ("half a zip", &LYING[..100])] {
            let answer = scene.api.send("POST", &scene.path(&format!("/import{replace}")), &[], body);
            scene.refused(&answer, invalid, name);
        }
        let answer = scene.api.send("POST", &scene.path(&format!("/import{replace}")), &[], ENCRYPTED);
        let error = scene.refused(&answer, invalid, "encrypted");
        assert!(text(&error["message"]).contains("encrypted"), "{error}");
        let answer =
            scene.api.send("POST", &scene.path(&format!("/import{replace}")), &[("Content-Type", "text/plain")], LYING);
        let lying = answer.json();
        let expected = match lying["error"]["code"].as_str() {
            Some("file_too_large") => (413, "file_too_large", None),
            _ => invalid,
        };
        scene.refused(&answer, expected, "lying");
    }
    for body in [json!({"git": {}}), json!({"git": {"ref": "main"}, "replace": true}), json!({})] {
        let answer = scene.api.post(&scene.path("/import"), &body);
        let body = answer.json();
        let param = body["error"]["param"].as_str();
        scene.refused(&answer, (422, "environment_invalid", param), &body.to_string());
    }
}

#[test]
fn names_that_cannot_be_and_environments_that_are_not_change_nothing() {
    needs_root!();
    let server = start();
    let api = Api::of(&server);
    let scene = Scene::new(api.clone(), "Content Studio");
    let invalid = (422, "environment_invalid", Some("name"));
    for name in ["!!!", "", "..", "-x"] {
        scene.refused(&api.post("/v1/environments", &json!({ "name": name })), invalid, name);
        let renamed = api.send(
            "PUT",
            &scene.path(""),
            &[("Content-Type", "application/json")],
            json!({"name": name}).to_string().as_bytes(),
        );
        scene.refused(&renamed, invalid, name);
    }
    for name in ["content studio", "Content Studio", "content-studio"] {
        let answer = api.post("/v1/environments", &json!({ "name": name }));
        scene.refused(&answer, (409, "environment_exists", Some("name")), name);
    }
    assert_eq!(api.get("/v1/environments").ok()["environments"].as_array().unwrap().len(), 1);

    let missing = "henv_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00";
    for missing in [missing, "henv_nonsense", "x"] {
        for (method, rest) in [
            ("GET", ""),
            ("PUT", ""),
            ("DELETE", ""),
            ("GET", "/files"),
            ("GET", "/files/a"),
            ("PUT", "/files/a"),
            ("DELETE", "/files/a"),
            ("POST", "/directories"),
            ("POST", "/import"),
            ("POST", "/build"),
            ("GET", "/builds/1"),
            ("GET", "/versions"),
            ("POST", "/versions/1/activate"),
            ("GET", "/harnesses"),
        ] {
            let body = json!({"name": "n", "path": "p"}).to_string();
            // An import of this type would be read as the JSON form.
            let kind = if rest == "/import" { "application/zip" } else { "application/json" };
            let answer = api.send(
                method,
                &format!("/v1/environments/{missing}{rest}"),
                &[("Content-Type", kind)],
                body.as_bytes(),
            );
            scene.refused(&answer, (404, "environment_not_found", None), &format!("{method} {missing}{rest}"));
        }
    }

    // What names an environment: writes of a harness, and tasks.
    let harness = api.harness();
    let shown = |api: &Api| api.get(&format!("/v1/harnesses/{harness}")).ok();
    let kept = shown(&api);
    let write = json!({"name": "other", "base": "shell", "environment": missing});
    let gone = (404, "environment_not_found", Some("environment"));
    scene.refused(&api.post("/v1/harnesses", &write), gone, "POST harness");
    let put = api.send(
        "PUT",
        &format!("/v1/harnesses/{harness}"),
        &[("Content-Type", "application/json")],
        write.to_string().as_bytes(),
    );
    scene.refused(&put, gone, "PUT harness");
    assert_eq!(shown(&api), kept);
    let task =
        |environment: &str| json!({"input": "true", "metadata": {"harness_id": harness, "environment": environment}});
    let param = Some("metadata.environment");
    scene.refused(&api.ask(&task(missing)), (404, "environment_not_found", param), "a task on nothing");
    scene.refused(&api.ask(&task(&scene.id)), (409, "environment_not_ready", param), "a task on nothing built");
    // A harness keeps naming an environment that is deleted, and its next task is told.
    let passing = api.environment("passing", &[("a", "a")]);
    let named = api.post("/v1/harnesses", &json!({"name": "n", "base": "shell", "environment": passing})).ok();
    api.delete(&format!("/v1/environments/{passing}")).ok();
    let next = api.ask(&json!({"input": "true", "metadata": {"harness_id": named["id"]}}));
    scene.refused(&next, (404, "environment_not_found", None), "a task whose harness names a deleted one");
    let told = next.text();
    assert!(told.contains("harness configuration names") && told.contains("`metadata.environment`"), "{told}");
    assert_eq!(api.get("/v1/sessions").ok()["sessions"], json!([]));
}

#[test]
fn builds_in_the_way_and_versions_that_are_not_change_nothing() {
    needs_root!();
    let server = start();
    let mut scene = Scene::new(Api::of(&server), "builds");
    scene.api.put(&scene.id, "setup.sh", "sleep 3\n");
    scene.before = Source::of(&scene.api, &scene.id);
    let harness = scene.api.harness();
    let first = scene.api.begin_build(&scene.id);
    scene.send("POST", "/build", b"", (409, "environment_busy", None));
    scene.send("DELETE", "", b"", (409, "environment_busy", None));
    let not_ready = scene.api.send("POST", &scene.path("/versions/1/activate"), &[], b"");
    let param = not_ready.json()["error"]["param"].as_str().map(str::to_owned);
    scene.refused(&not_ready, (409, "environment_not_ready", param.as_deref()), "activating a running build");
    let task = scene.api.ask(&json!({"input": "true", "metadata": {"harness_id": harness, "environment": scene.id}}));
    scene.refused(&task, (409, "environment_not_ready", Some("metadata.environment")), "a task during the first build");
    assert_eq!(scene.api.ended_build(&scene.id, first)["status"], "ready");
    scene.api.put(&scene.id, "setup.sh", "exit 3\n");
    scene.before = Source::of(&scene.api, &scene.id);
    let second = scene.api.begin_build(&scene.id);
    assert_eq!(scene.api.ended_build(&scene.id, second)["status"], "failed");
    let failed = scene.api.send("POST", &scene.path("/versions/2/activate"), &[], b"");
    let param = failed.json()["error"]["param"].as_str().map(str::to_owned);
    scene.refused(&failed, (409, "environment_not_ready", param.as_deref()), "activating a failed build");
    for number in ["99", "0", "-1", "x"] {
        let answer = scene.api.send("POST", &scene.path(&format!("/versions/{number}/activate")), &[], b"");
        assert_eq!(answer.status, 404, "{number}: {}", answer.text());
    }
    let shown = scene.api.get(&scene.path("")).ok();
    assert_eq!((&shown["version"], &shown["status"]), (&json!(1), &json!("ready")));
    // An environment without files has nothing to build.
    let hollow = scene.api.environment("hollow", &[]);
    let answer = scene.api.post(&format!("/v1/environments/{hollow}/build"), &json!({}));
    scene.refused(&answer, (422, "environment_invalid", None), "a build of nothing");
}

#[test]
fn a_store_that_is_away_is_said_and_comes_back_with_everything() {
    needs_root!();
    let server = start();
    let mut scene = Scene::new(Api::of(&server), "away");
    for directory in ["blobs", "spool"] {
        let (place, away) = (server.data().join(directory), server.data().join("away"));
        std::fs::rename(&place, &away).unwrap();
        std::fs::write(&place, "not a directory").unwrap();
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(3);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append_data(&mut header, "run.py", &b"new"[..]).unwrap();
        let archive = tar.into_inner().unwrap();
        let mut answers = vec![
            ("PUT", scene.api.send("PUT", &scene.path("/files/run.py"), &[], b"changed")),
            ("import", scene.api.send("POST", &scene.path("/import?replace=1"), &[], &archive)),
        ];
        if directory == "blobs" {
            // What is open already may still be read, and read rightly.
            let read = scene.api.get(&scene.path("/files/run.py"));
            assert!(read.status == 503 || read.status == 200 && read.body == scene.before.files["run.py"]);
            answers.push(("build", scene.api.send("POST", &scene.path("/build"), &[], b"")));
        }
        std::fs::remove_file(&place).unwrap();
        std::fs::rename(&away, &place).unwrap();
        for (what, answer) in answers {
            let error =
                scene.refused(&answer, (503, "environment_unavailable", None), &format!("{what} without {directory}"));
            assert!(error["detail"]["request_id"].is_string(), "{error}");
        }
        scene.api.put(&scene.id, "run.py", "print(1)\n");
        assert_eq!(scene.api.get(&scene.path("/files/run.py")).body, b"print(1)\n");
        // The time of writing is all that has changed.
        let written = Source::of(&scene.api, &scene.id);
        assert_eq!(written.files, scene.before.files);
        scene.before = written;
        scene.api.build(&scene.id);
        scene.send("GET", "/files/missing", b"", (404, "file_not_found", Some("path")));
    }
}
