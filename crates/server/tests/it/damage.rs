//! A file whose bytes were damaged on the server's disk while the server runs.

use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::api::{Api, Framing};
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
