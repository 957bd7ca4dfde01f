//! The whole suite once more, as an ordinary user.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture::{Mode, mode};

/// Far above what accounts use, and another for every run.
const FIRST_USER: u32 = 1_100_000_000;

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
    let delegated = Delegated::to(user);
    // The shell is still root's when it joins the group.
    let output = Command::new("/bin/sh")
        .args(["-c", "test -z \"$GROUP\" || echo $$ > \"$GROUP/cgroup.procs\"; exec setpriv \"$@\"", "sh"])
        .args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".into()])
        .arg(std::env::current_exe().unwrap())
        .arg("--nocapture")
        .env(SECOND_RUN, "1")
        .env("GROUP", delegated.directory.as_deref().unwrap_or(Path::new("")))
        .output()
        .unwrap();
    drop(delegated);
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the run as an ordinary user failed");
    let ran = String::from_utf8_lossy(&output.stdout);
    assert!(ran.contains("mode: ordinary user") && !ran.contains("mode: root"), "it ran as the wrong user");
}

/// Set for the second run.
const SECOND_RUN: &str = "STEAD_SANDBOX_TEST_ORDINARY_USER";

/// A version 2 control group that belongs to the user, as a service manager delegates one; none where the host has no such
/// hierarchy.
struct Delegated {
    directory: Option<PathBuf>,
}

impl Delegated {
    fn to(user: u32) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let unified = mounts.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4));
        let directory = unified.map(|mount| Path::new(mount).join(format!("stead-test-delegated-{user}")));
        if let Some(directory) = &directory {
            fs::create_dir(directory).unwrap();
            for file in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
                chown(directory.join(file), Some(user), Some(user)).unwrap();
            }
        }
        Self { directory }
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            let _ = fs::remove_dir(directory);
        }
    }
}
