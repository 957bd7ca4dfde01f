//! The environments chapter through the router.

use std::time::Duration;

use axum::body::Body;
use http::Method;
use serde_json::{Value, json};

use crate::client::Server;
use crate::schema::conforms;

#[tokio::test]
async fn an_environment_is_named_once_and_keeps_its_place() {
    let server = Server::start().await;
    let id = server.environment("Content Studio").await;
    let path = format!("/v1/environments/{id}");
    let body = server.get(&path).await.good();
    assert_eq!((&body["status"], &body["version"], &body["versions"]), (&json!("empty"), &json!(null), &json!([])));
    server.post("/v1/environments", json!({"name": "content studio"})).await.refused(409, "environment_exists");
    server.post("/v1/environments", json!({"name": "!!!"})).await.refused(422, "environment_invalid");
    server.post("/v1/environments", json!({})).await.refused(422, "environment_invalid");
    let renamed = server.put(&path, json!({"name": "Other", "entry": "run"})).await.good();
    assert_eq!((&renamed["name"], &renamed["mount"]), (&json!("Other"), &json!("/env/content-studio")));
    assert_eq!(server.put(&path, json!({"description": "d"})).await.good()["entry"], json!("run"));
    assert_eq!(server.put(&path, json!({"name": "日本語"})).await.good()["mount"], json!("/env/content-studio"));
    server.put(&path, json!({"name": "-a"})).await.refused(422, "environment_invalid");
    let shape = server.put(&path, json!({"runtime": 7})).await.refused(400, "invalid_input");
    assert_eq!((&shape["param"], &shape["message"]), (&json!("runtime"), &json!("`runtime` is an object")));
    conforms("EnvironmentList", &server.get("/v1/environments").await.good());
    assert_eq!(server.delete(&path).await.good(), json!({"id": id, "deleted": true}));
    server.get(&path).await.refused(404, "environment_not_found");
}

#[tokio::test]
async fn packages_are_written_under_one_name_and_read_under_another() {
    let server = Server::start().await;
    let write =
        json!({"name": "x", "packages": {"pip": ["six==1.17.0"], "apt": ["jq"]}, "runtime": {"python": "3.11"}});
    let made = conforms("Environment", &server.post("/v1/environments", write).await.good());
    assert_eq!(made["declared"]["pip"], json!([{"spec": "six==1.17.0", "name": "six", "version": "1.17.0"}]));
    assert_eq!((&made["packages"], &made["runtime"]), (&json!([]), &json!({"python": "3.11"})));
    let path = format!("/v1/environments/{}", made["id"].as_str().unwrap());
    // What is left out stays, a list that is given replaces that list, and what was read may be sent back.
    let kept = server.put(&path, json!({"name": "y"})).await.good();
    assert_eq!((&kept["declared"], &kept["runtime"]), (&made["declared"], &made["runtime"]));
    let less = server.put(&path, json!({"packages": {"pip": []}, "runtime": {"python": ""}})).await.good();
    assert_eq!((&less["declared"]["pip"], &less["declared"]["apt"][0]["spec"]), (&json!([]), &json!("jq")));
    assert_eq!(less["runtime"], json!({"python": ""}));
    assert_eq!(server.put(&path, less.clone()).await.good()["declared"], less["declared"]);
    for (write, param) in [
        (json!({"packages": {"pip": ["six", "-r x"]}}), "packages.pip"),
        (json!({"packages": {"npm": ["a@file:../b"]}}), "packages.npm"),
        (json!({"packages": {"gem": ["rails"]}}), "packages.gem"),
        (json!({"runtime": {"python": "/usr/bin/python3"}}), "runtime.python"),
    ] {
        assert_eq!(server.put(&path, write).await.refused(422, "environment_invalid")["param"], json!(param));
    }
    assert_eq!(server.get(&path).await.good()["declared"], less["declared"]);
}

#[tokio::test]
async fn files_keep_their_bytes_under_any_honest_name() {
    let server = Server::start().await;
    let files = format!("/v1/environments/{}/files", server.environment("Demo").await);
    let bytes: Vec<u8> = (0..=255).collect();
    for (name, body) in [("a%20b/%C3%A9%23%3F.bin", &bytes[..]), ("empty", &[]), ("x.html", b"<script>")] {
        let written = server.call(Method::PUT, &format!("{files}/{name}"), body.to_vec()).await.good();
        assert_eq!(written["bytes"], json!(body.len()));
        let read = server.get(&format!("{files}/{name}")).await;
        assert_eq!((read.status.as_u16(), &read.bytes[..]), (200, body));
        assert_eq!(read.header("x-content-type-options"), "nosniff");
        assert!(read.header("content-security-policy").starts_with("sandbox"));
        assert!(read.header("content-disposition").starts_with("attachment"));
    }
    let tree = conforms("EnvironmentFileList", &server.get(&files).await.good());
    let paths: Vec<&str> =
        tree["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["a b", "a b/é#?.bin", "empty", "x.html"]);
    assert_eq!((&tree["count"], &tree["bytes"]), (&json!(3), &json!(264)));

    let cases: Vec<String> =
        serde_json::from_str(include_str!("../../../../../tests/field-cases/C070-paths.json")).unwrap();
    for path in &cases {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let answer = server.call(method, &format!("{files}/{path}"), "x").await;
            answer.refused(422, "environment_invalid");
        }
    }
    assert_eq!(server.get(&files).await.good(), tree, "hostile paths changed something");
    server.call(Method::PUT, &format!("{files}/dir/"), "x").await.refused(422, "environment_invalid");
    server.call(Method::PUT, &format!("{files}/empty/below"), "x").await.refused(422, "environment_invalid");
    server.get(&format!("{files}/a%20b")).await.refused(404, "file_not_found");
    server.get(&format!("{files}/missing")).await.refused(404, "file_not_found");
    // A slash at the end names a directory, in every method.
    let bit = json!({"executable": true}).to_string();
    for (method, body) in [(Method::GET, ""), (Method::PATCH, bit.as_str()), (Method::DELETE, "")] {
        let answer = server.call(method, &format!("{files}/empty/"), body.to_owned()).await;
        answer.refused(404, "file_not_found");
    }
    let large = server.call(Method::PUT, &format!("{files}/empty"), vec![0; 1001]).await;
    assert_eq!(large.refused(413, "file_too_large")["detail"]["max_bytes"], json!(1000));
    assert_eq!(server.get(&format!("{files}/empty")).await.bytes, b"");

    server.delete(&format!("{files}/a%20b/")).await.good();
    assert_eq!(server.get(&files).await.good()["count"], json!(2));
}

#[tokio::test]
async fn the_executable_bit_is_set_kept_and_shown() {
    let server = Server::start().await;
    let file = format!("/v1/environments/{}/files/run.sh", server.environment("Demo").await);
    server.call(Method::PUT, &format!("{file}?executable=1"), "a").await.good();
    assert_eq!(server.get(&file).await.header("x-stead-executable"), "1");
    server.call(Method::PUT, &file, "b").await.good();
    let kept = server.get(&file).await;
    assert_eq!((kept.header("x-stead-executable"), kept.text().as_str()), ("1", "b"));
    let request = server.request(Method::PUT, &file).header("x-stead-executable", "0").body(Body::from("c")).unwrap();
    server.send(request).await.good();
    assert_eq!(server.get(&file).await.header("x-stead-executable"), "0");
    for flag in ["executable=maybe", "executable=", "executable"] {
        let answer = server.call(Method::PUT, &format!("{file}?{flag}"), "a").await;
        assert_eq!(answer.refused(400, "invalid_input")["param"], "executable", "{flag}");
    }
}

/// A tar with one plain file in one directory that wraps everything.
fn archive() -> Vec<u8> {
    let content = b"hello\n";
    let mut header = [0_u8; 512];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(0, b"wrap/a.txt");
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, b"00000000006\0");
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = header.to_vec();
    archive.extend_from_slice(content);
    archive.resize(512 * 4, 0);
    archive
}

#[tokio::test]
async fn an_import_takes_archives_and_refuses_the_rest() {
    let server = Server::start().await;
    let path = format!("/v1/environments/{}", server.environment("Demo").await);
    server.call(Method::PUT, &format!("{path}/files/old"), "x").await.good();
    let body = server.call(Method::POST, &format!("{path}/import?replace=1"), archive()).await.good();
    conforms("EnvironmentImportResult", &body);
    assert_eq!((&body["written"], &body["skipped"], &body["count"]), (&json!(1), &json!(0), &json!(1)));
    assert_eq!(server.get(&format!("{path}/files/a.txt")).await.text(), "hello\n");
    server.call(Method::POST, &format!("{path}/import"), "no archive").await.refused(422, "environment_invalid");
    server.call(Method::POST, &format!("{path}/import?replace=x"), archive()).await.refused(400, "invalid_input");
    for (body, param) in [
        (json!({"git": {"url": "ext::sh"}}), "git.url"),
        (json!({"git": {"url": "https://example.com/x", "ref": ""}}), "git.ref"),
        (json!({"git": {"url": "https://example.com/x", "stead_ssh_key": "x"}}), "git.stead_ssh_key"),
        (json!({"git": {}}), "git.url"),
        (json!({"git": 3}), "git"),
        (json!({"git": {"url": 3}}), "git.url"),
        (json!({"git": {"url": "https://example.com/x", "ref": ["main"]}}), "git.ref"),
        (json!({"git": {"url": "git@example.com:x", "stead_ssh_key": {}}}), "git.stead_ssh_key"),
        (json!([]), "git"),
    ] {
        let request =
            server.request(Method::POST, &format!("{path}/import")).header("content-type", "application/json");
        let answer = server.send(request.body(Body::from(body.to_string())).unwrap()).await;
        assert_eq!(answer.refused(422, "environment_invalid")["param"], json!(param), "{body}");
    }
    let replace = |value: Value| json!({"git": {"url": "https://example.com/x"}, "replace": value}).to_string();
    let request = server.request(Method::POST, &format!("{path}/import")).header("content-type", "application/json");
    let answer = server.send(request.body(Body::from(replace(json!("yes")))).unwrap()).await;
    assert_eq!(answer.refused(400, "invalid_input")["param"], "replace");
    // What is right is tried, and this machine has nowhere to run git.
    let right = replace(json!(1));
    let request = server.request(Method::POST, &format!("{path}/import")).header("content-type", "application/json");
    let answer = server.send(request.body(Body::from(right)).unwrap()).await;
    answer.refused(503, "environment_unavailable");
    let made = server.post(&format!("{path}/directories"), json!({"path": "assets/brand"})).await.good();
    assert_eq!(made, json!({"path": "assets/brand", "dir": true}));
    server.post(&format!("{path}/directories"), json!({"path": "../x"})).await.refused(422, "environment_invalid");
}

#[tokio::test]
async fn a_build_that_fails_changes_nothing_and_says_why() {
    let server = Server::start().await;
    let path = format!("/v1/environments/{}", server.environment("Demo").await);
    server.call(Method::PUT, &format!("{path}/files/requirements.txt"), "six\n").await.good();
    let begun = conforms("EnvironmentBuild", &server.post(&format!("{path}/build"), json!({})).await.good());
    assert_eq!((&begun["version"], &begun["status"]), (&json!(1), &json!("building")));
    let mut build = Value::Null;
    for _ in 0..200 {
        build = server.get(&format!("{path}/builds/1")).await.good();
        if build["status"] != "building" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    conforms("EnvironmentBuild", &build);
    assert_eq!((&build["status"], &build["stage"]), (&json!("failed"), &json!("")), "{build}");
    assert!(!build["error"].as_str().unwrap().is_empty() && build["log"].is_string());
    let environment = conforms("Environment", &server.get(&path).await.good());
    assert_eq!((&environment["status"], &environment["version"]), (&json!("failed"), &json!(null)));
    let versions = server.get(&format!("{path}/versions")).await.good();
    assert_eq!((&versions["active"], &versions["versions"][0]["status"]), (&json!(null), &json!("failed")));
    server.post(&format!("{path}/versions/1/activate"), json!({})).await.refused(409, "environment_not_ready");
    server.post(&format!("{path}/versions/99/activate"), json!({})).await.refused(404, "stead_build_not_found");
    server.get(&format!("{path}/builds/99")).await.refused(404, "stead_build_not_found");
    server.get(&format!("{path}/builds/one")).await.refused(404, "stead_build_not_found");
}
