//! The whole suite once more, as an ordinary user.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::fixture::{Mode, mode, runtime};

/// Far above what accounts use, and another for every run.
const FIRST_USER: u32 = 1_300_000_000;
/// Set for the second run.
const SECOND_RUN: &str = "STEAD_NATIVE_TEST_ORDINARY_USER";

#[test]
fn every_test_holds_for_an_ordinary_user_too() {
    if mode() == Mode::User {
        // Then this run is that one, and root's is what is missing.
        let second_run = std::env::var_os(SECOND_RUN).is_some();
        assert!(second_run || std::env::var_os("STEAD_NO_SKIP").is_none(), "the tests of root's sandboxes need root");
        println!("skipped: root's sandboxes need root");
        return;
    }
    let user = FIRST_USER + std::process::id();
    let output = Command::new(std::env::current_exe().unwrap())
        .env(SECOND_RUN, "1")
        .env("STEAD_RUNTIME", runtime())
        .arg("--nocapture")
        .uid(user)
        .gid(user)
        .output()
        .unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the run as an ordinary user failed");
    let ran = String::from_utf8_lossy(&output.stdout);
    assert!(ran.contains("mode: ordinary user") && !ran.contains("mode: root"), "it ran as the wrong user");
}
