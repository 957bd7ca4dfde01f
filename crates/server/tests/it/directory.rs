//! The data directory: another one's database, what somebody has removed from it, and a disk that a task has filled.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::api::{Answer, Api};
use crate::damage::Disk;
use crate::objects::{eventually, said, text};
use crate::observing::plain;
use crate::program::{STEAD, needs_root, ran, stead};
use crate::server::TestServer;

#[test]
fn a_start_on_another_database_removes_nothing() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let api = Api::of(&server);
    let first = api.run(&api.harness(), "echo kept > kept.txt; echo made");
    assert_eq!(said(&first), "made\n");
    let key = fs::read_to_string(server.key_file()).unwrap();
    let other = format!("sqlite://{}/other.db", server.data().display());
    let elsewhere = [("database.url", other.as_str())];
    let refused = |server: &TestServer, arguments: &[&str]| {
        let tried = server.tried_with(&elsewhere, arguments);
        let note = server.data().join("database");
        assert!(tried.status == 1 && tried.stderr.contains("is an empty database"), "{}", tried.stderr);
        assert!(tried.stderr.contains(&format!("remove {}", note.display())), "{}", tried.stderr);
        assert!(!server.data().join("other.db").exists(), "it was made");
    };
    refused(&server, &["--take-over"]);
    assert_eq!(api.get("/v1/sessions").status, 200, "the server that runs was told to go");
    server.kill();
    refused(&server, &[]);
    // A directory of an earlier version has no note.
    let note = fs::read_to_string(server.data().join("database")).unwrap();
    fs::remove_file(server.data().join("database")).unwrap();
    let tried = server.tried_with(&elsewhere, &[]);
    assert!(tried.status == 1 && tried.stderr.contains("/environments"), "{}", tried.stderr);
    assert_eq!(fs::read_to_string(server.key_file()).unwrap(), key);
    server.start_again();
    assert_eq!(fs::read_to_string(server.data().join("database")).unwrap(), note);
    assert_eq!(said(&api.go_on(&first, "cat kept.txt")), "kept\n");
}

#[test]
fn what_is_removed_under_a_running_server_costs_little() {
    needs_root!();
    let mut server = TestServer::start(&[("server.shutdown_grace", "2s")]);
    let api = Api::of(&server);
    let harness = api.harness();
    fs::remove_file(server.data().join("lock")).unwrap();
    let tried = server.tried(&[]);
    let holder = format!("another server (process {})", server.pid());
    assert!(tried.status == 1 && tried.stderr.contains(&holder), "{}", tried.stderr);
    assert_eq!(server.take_over(), Some(0), "{}", server.log());

    fs::remove_dir_all(server.data().join("run")).unwrap();
    let began = Instant::now();
    assert_eq!(said(&api.run(&harness, "echo here")), "here\n");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[test]
fn a_server_that_may_open_next_to_no_files_says_so_and_does_not_start() {
    needs_root!();
    let data = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(data.path(), Some(54_322), Some(54_322)).unwrap();
    let copy = data.path().join("stead");
    fs::copy(STEAD, &copy).unwrap();
    let mut command = Command::new("prlimit");
    command.args(["--nofile=64:64"]).arg(copy).args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.path());
    let refused = ran(command.env("HOME", "/nonexistent").current_dir(data.path()).uid(54_322).gid(54_322));
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("no more than 64 open files"), "{}", refused.stderr);
}

const WHOLE: u64 = 32 << 20;

/// Waits until room is kept back.
pub(crate) fn ballast_is_whole(data: &Path) {
    eventually("the ballast to be whole", || match fs::metadata(data.join("ballast")) {
        Ok(found) if found.len() == WHOLE => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

/// Waits until new work is refused.
pub(crate) fn no_room_is_left(server: &TestServer) {
    eventually("the full disk to be noticed", || {
        let (status, body) = plain(server.url().trim_start_matches("http://"), "/readyz");
        if status == 503 && body.contains("\"data_directory\":\"no room is left\"") { Ok(()) } else { Err(body) }
    });
}

pub(crate) fn is_refused_for_want_of_room(refusal: &Answer) {
    let error = &refusal.json()["error"];
    assert_eq!((refusal.status, refusal.header("retry-after")), (503, Some("1")), "{error}");
    let told = (&error["type"], &error["code"]);
    assert_eq!(told, (&json!("server_error"), &json!("environment_unavailable")), "{error}");
}

#[test]
fn a_task_that_fills_the_disk_can_be_deleted_and_then_everything_goes_on() {
    needs_root!();
    let settings = [("native.disk_reserve", "64MiB"), ("sessions.network", "disabled")];
    let mut server = TestServer::start_prepared(&settings, |data| Disk::mount(data, "320m"));
    let data = server.data().to_owned();
    let _disk = Disk(&data);
    let api = Api::of(&server);
    let harness = api.harness();
    let project = api.environment("kept", &[("a.txt", "kept\n")]);
    let first = api.run(&harness, "echo kept > b.txt");
    ballast_is_whole(&data);

    let session = |response: &serde_json::Value| text(&response["metadata"]["session_id"]).to_owned();
    // With a pause after which nobody looks often.
    let filling = api.begin(&harness, "sleep 5; head -c 2G /dev/zero > big; echo over");
    no_room_is_left(&server);
    let ended = api.ended(&filling);
    assert_ne!(ended["status"], "in_progress", "{ended}");
    let file = format!("/v1/environments/{project}/files/large.bin");
    let task = json!({"input": "echo x", "metadata": {"harness_id": harness}});
    for answer in [api.send("PUT", &file, &[], &vec![b'x'; 300_000]), api.post("/v1/responses", &task)] {
        is_refused_for_want_of_room(&answer);
    }
    assert_eq!(api.get(&format!("/v1/environments/{project}/files/a.txt")).body, b"kept\n");
    let deleted = api.delete(&format!("/v1/sessions/{}", session(&filling)));
    assert!(deleted.status < 300, "{} {}", deleted.status, deleted.text());
    ballast_is_whole(&data);
    eventually("new work", || match api.send("PUT", &file, &[], &vec![b'x'; 300_000]).status {
        200 => Ok(()),
        status => Err(status.to_string()),
    });

    // The same with a crash in the midst of it, and a start.
    let filling = api.begin(&harness, "head -c 2G /dev/zero > big; sleep 300");
    no_room_is_left(&server);
    server.kill();
    server.start_again();
    let ended = api.ended(&filling);
    assert_ne!(ended["status"], "in_progress", "{ended}");
    assert!(api.delete(&format!("/v1/sessions/{}", session(&filling))).status < 300);
    ballast_is_whole(&data);
    eventually("new work", || match api.post("/v1/responses", &task).status {
        200 => Ok(()),
        status => Err(status.to_string()),
    });
    assert_eq!(said(&api.go_on(&first, "cat b.txt")), "kept\n");
    let listed = ran(stead().args(["doctor", "--leftovers", "--data"]).arg(&data));
    assert!(listed.status == 0 && listed.stdout.contains("slot "), "{}{}", listed.stdout, listed.stderr);
    assert!(
        !listed.stdout.contains("mount "),
        "the directory's own file system is nobody's leftover: {}",
        listed.stdout
    );
    api.delete_sessions();
    server.terminate();
}
