//! The first start on a data directory: what goes wrong then can be mended, and what is made is the server's alone.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::api::Api;
use crate::objects::{said, text};
use crate::program::{needs_root, ran, stead};
use crate::server::TestServer;

/// `stead serve` on a directory, as somebody starts it who configures nothing else.
fn serve(data: &Path) -> Command {
    let mut command = stead();
    command.arg("serve").arg("--data").arg(data).args(["--listen", "127.0.0.1:0"]);
    command.env("STEAD__NATIVE__SLOTS", "16").stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn a_first_start_that_failed_can_be_made_again() {
    needs_root!();
    let server = TestServer::start_prepared(&[], |data| {
        assert_eq!(serve(data).args(["--runtime", "/nonexistent"]).status().unwrap().code(), Some(1));
        assert!(data.join("environments/place.json").exists());
    });
    let api = Api::of(&server);
    assert_eq!(text(&api.run(&api.harness(), "echo there")["status"]), "completed");
}

#[test]
fn a_first_start_that_was_killed_can_be_made_again() {
    needs_root!();
    for milliseconds in (5..60).step_by(6) {
        let server = TestServer::start_prepared(&[], |data| {
            let mut process = serve(data);
            if let Ok(runtime) = std::env::var("STEAD_RUNTIME") {
                process.args(["--runtime", &runtime]);
            }
            let mut process = process.spawn().unwrap();
            std::thread::sleep(Duration::from_millis(milliseconds));
            process.kill().unwrap();
            process.wait().unwrap();
        });
        assert_eq!(Api::of(&server).get("/v1/sessions").status, 200, "{milliseconds} ms");
    }
}

#[test]
fn nobody_else_can_read_what_is_in_a_data_directory() {
    needs_root!();
    let server = TestServer::start_prepared(&[], |data| {
        std::fs::set_permissions(data, std::fs::Permissions::from_mode(0o755)).unwrap();
    });
    let api = Api::of(&server);
    assert_eq!(text(&api.run(&api.harness(), "echo there")["status"]), "completed");
    assert_eq!(std::fs::metadata(server.data()).unwrap().mode() & 0o777, 0o700);
    assert!(server.log().contains("its mode was 755"), "{}", server.log());
    let listed = Command::new("setpriv")
        .args(["--reuid=54001", "--regid=54001", "--clear-groups", "ls"])
        .arg(server.data().join("projects"))
        .output()
        .unwrap();
    assert!(!listed.status.success() && String::from_utf8_lossy(&listed.stderr).contains("Permission denied"));
}

#[test]
fn files_of_sessions_are_never_taken_for_nobodys() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let api = Api::of(&server);
    let begun = api.run(&api.harness(), "echo precious > kept");
    server.terminate();
    let node = server.data().join("node");
    let name = std::fs::read_to_string(&node).unwrap();

    // The wrong directory for a database.
    let elsewhere = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", server.data().join("stead.db").display());
    let tried = ran(serve(elsewhere.path()).env("STEAD__DATABASE__URL", url).stderr(Stdio::piped()));
    assert!(tried.status == 1 && tried.stderr.contains("nothing was ever in"), "{}", tried.stderr);

    std::fs::write(&node, "node-another\n").unwrap();
    let tried = server.tried(&[]);
    assert!(tried.status == 1 && tried.stderr.contains(name.trim()), "{}", tried.stderr);
    std::fs::remove_file(&node).unwrap();
    server.start_again();
    assert!(server.log().contains("it is written again"), "{}", server.log());
    assert_eq!(std::fs::read_to_string(&node).unwrap(), name);
    assert_eq!(said(&api.go_on(&begun, "cat kept")), "precious\n");
}
