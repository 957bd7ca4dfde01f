//! The server's disk: a file whose bytes were damaged while the server runs, and no room.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::api::{Api, Framing};
use crate::directory::{ballast_is_whole, is_refused_for_want_of_room, no_room_is_left};
use crate::objects::said;
use crate::program::needs_root;
use crate::server::TestServer;

/// The files below a directory.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("the directory is readable").path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[test]
fn damaged_contents_are_said_to_be_damaged_until_they_are_uploaded_again() {
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    let id = api.post("/v1/environments", &json!({"name": "damaged"})).ok()["id"].as_str().unwrap().to_owned();
    let file = format!("/v1/environments/{id}/files/src/large.bin");
    let bytes: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    let ask =
        |method: &str, body: &[u8]| api.open(method, &file, &[], body, Framing::Length).unwrap().finish().unwrap();
    assert_eq!(ask("PUT", &bytes).status, 200);
    let kept =
        files_below(&server.data().join("blobs")).into_iter().find(|path| fs::read(path).unwrap() == bytes).unwrap();
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o600)).unwrap();
    fs::OpenOptions::new().write(true).open(&kept).unwrap().write_all_at(b"damaged", 1000).unwrap();

    let answer = ask("GET", b"");
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (500, &json!("stead_contents_damaged")));
    // Its body is announced and does not come.
    assert_eq!(api.open("HEAD", &file, &[], b"", Framing::Length).unwrap().status, 500);
    let too_deep = api.open("PUT", &file.replace("src", &["d"; 128].join("/")), &[], b"x", Framing::Length);
    assert_eq!(too_deep.unwrap().finish().unwrap().status, 422);

    assert_eq!(ask("PUT", &bytes).status, 200);
    assert_eq!(ask("GET", b"").status, 200);
    assert_eq!(fs::read(&kept).unwrap(), bytes);
}

/// A small file system at a path until this is dropped.
pub(crate) struct Disk<'a>(pub(crate) &'a Path);

impl Disk<'_> {
    pub(crate) fn mount(path: &Path, size: &str) {
        let options = format!("size={size},mode=755");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "stead-small"]).arg(path).status();
        assert!(mounted.unwrap().success(), "a small file system cannot be mounted");
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// Leaves no room at all.
fn fill(data: &Path) -> PathBuf {
    let path = data.join("filler");
    fs::File::create(&path).unwrap();
    fill_further(&path);
    path
}

fn fill_further(path: &Path) {
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    for size in [1 << 16, 1 << 12] {
        while file.write_all(&vec![7; size]).is_ok() {}
    }
}

#[test]
fn a_full_disk_is_said_in_every_answer_and_at_the_start_and_costs_nothing_that_was_kept() {
    needs_root!();
    let settings = [("native.disk_reserve", "4KiB"), ("sessions.network", "disabled")];
    let mut server = TestServer::start_prepared(&settings, |data| Disk::mount(data, "96m"));
    let data = server.data().to_owned();
    let _disk = Disk(&data);
    let api = Api::of(&server);
    let harness = api.harness();
    let project = api.environment("kept", &[("a.txt", "kept\n")]);
    let first = api.run(&harness, "echo kept > b.txt");

    ballast_is_whole(&data);
    let filler = fill(&data);
    no_room_is_left(&server);
    let json = [("Content-Type", "application/json")];
    let large = vec![b'x'; 300_000];
    let file = format!("/v1/environments/{project}/files/large.bin");
    let task = json!({"input": "echo x", "metadata": {"harness_id": harness}}).to_string();
    let agent = json!({"name": "n", "base": "shell"}).to_string();
    for refusal in [
        api.send("PUT", &file, &[], &large),
        api.send("POST", "/v1/responses", &json, task.as_bytes()),
        api.send("POST", "/v1/harnesses", &json, agent.as_bytes()),
    ] {
        is_refused_for_want_of_room(&refusal);
    }
    // What is there can be read.
    assert_eq!(api.get(&format!("/v1/environments/{project}/files/a.txt")).body, b"kept\n");
    // What was kept back is room for a start, which refuses new work as well.
    server.kill();
    server.start_again();
    no_room_is_left(&server);
    assert_eq!(api.send("PUT", &file, &[], &large).status, 503);
    // Where nothing was kept back, nobody's place is taken, and nobody can start.
    fs::remove_file(data.join("ballast")).unwrap();
    fill_further(&filler);
    let tried = server.tried(&["--take-over"]);
    assert!(tried.status == 1 && tried.stderr.contains("failed to write in the data directory"), "{}", tried.stderr);
    assert_eq!(api.get("/v1/sessions").status, 200);
    server.kill();
    let tried = server.tried(&[]);
    let why = format!("error: no room is left on the disk of the data directory {}; make some", data.display());
    assert!(tried.status == 1 && tried.stderr.contains(&why), "{} {}", tried.status, tried.stderr);

    fs::remove_file(filler).unwrap();
    server.start_again();
    assert_eq!(said(&api.go_on(&first, "cat b.txt")), "kept\n");
    assert_eq!(api.send("PUT", &file, &[], &large).status, 200);
    api.delete_sessions();
    server.terminate();
}
