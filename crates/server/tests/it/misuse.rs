//! What the command says where something is not as its user took it to be: never another file, another version, another
//! success than was asked for.

use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

use serde_json::Value;

use crate::program::{Ran, needs_root, ran, stead};
use crate::server::TestServer;

/// A run that says `part` on standard error and ends with `status`.
fn says(ran: &Ran, status: i32, parts: &[&str]) {
    assert_eq!(ran.status, status, "{}", ran.stderr);
    for part in parts {
        assert!(ran.stderr.contains(part), "{part:?} is not in\n{}", ran.stderr);
    }
}

#[test]
fn a_wrong_command_line_is_told_in_the_words_of_its_command() {
    let wrong = |arguments: &[&str]| {
        ran(stead().env("STEAD_URL", "http://127.0.0.1:1").env("STEAD_KEY", "k").args(["project"]).args(arguments))
    };
    for option in [&["--ref", "v1"][..], &["--token-stdin"], &["--ssh-key", "f"], &["--known-hosts", "f"]] {
        says(&wrong(&[&["import", "p", "."], option].concat()), 2, &["cannot be used with", option[0]]);
        says(&wrong(&[&["import", "p"], option].concat()), 2, &["--git"]);
    }
    let nothing = wrong(&["import", "p"]);
    says(&nothing, 2, &["--git <URL>", "Usage: stead project import [OPTIONS] <PROJECT> <PATH|--git <URL>>"]);
    assert!(!nothing.stderr.contains("--key <KEY>"), "{}", nothing.stderr);
    says(&wrong(&["set", "p", "--pip", "-r", "requirements.txt"]), 2, &["'-r'", "an option is no package"]);
}

#[test]
fn files_land_and_are_fetched_under_the_names_that_are_meant() {
    needs_root!();
    let server = TestServer::start(&[]);
    says(&server.ran(&["project", "create", "p"]), 0, &[]);
    let here = tempfile::tempdir().unwrap();
    let path = |name: &str| here.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(here.path().join("x.txt"), "x").unwrap();
    std::fs::write(here.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9.txt")), "x").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(here.path().join("socket")).unwrap();
    says(&server.ran(&["project", "put", "p", &path("x.txt"), "sub/"]), 0, &[]);
    let imported = server.ran(&["project", "import", "p", here.path().to_str().unwrap()]);
    let skipped = ["skipped caf\u{fffd}.txt: its name is not UTF-8", "skipped socket: it is a device", "2 skipped"];
    says(&imported, 0, &skipped);
    let listed = server.ran(&["--json", "project", "files", "p"]).stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let paths: Vec<_> = listed["entries"].as_array().unwrap().iter().map(|entry| entry["path"].clone()).collect();
    assert_eq!(paths, ["sub", "sub/x.txt", "x.txt"]);
    says(&server.ran(&["project", "get", "p", "sub"]), 1, &["`sub` is a directory of p", "--under sub"]);
    says(&server.ran(&["project", "get", "p", "nope"]), 1, &["there is no `nope` in p"]);
}

#[test]
fn an_interpreter_that_is_not_there_is_said_when_it_is_declared() {
    needs_root!();
    let server = TestServer::start(&[]);
    let missing = "Python 3.99 is declared, but this server has Python 3.";
    says(&server.ran(&["project", "create", "p", "--python", "3.99"]), 0, &[missing]);
    let shown = server.ran(&["project", "show", "p"]);
    assert!(shown.stdout.contains("3.99 (this server has Python 3."), "{}", shown.stdout);
    let here = server.ran(&["--json", "runtimes"]).stdout;
    let here: Value = serde_json::from_str(&here).unwrap();
    let set = server.ran(&["project", "set", "p", "--python", here["python"][0].as_str().unwrap()]);
    assert!(set.status == 0 && !set.stderr.contains("warning"), "{}", set.stderr);
}

#[test]
fn versions_builds_and_files_that_are_gone_are_told_as_such() {
    needs_root!();
    let server = TestServer::start(&[("quotas.blobs", "128KiB")]);
    let here = tempfile::tempdir().unwrap();
    let script = here.path().join("x.txt");
    std::fs::write(&script, "one").unwrap();
    says(&server.ran(&["project", "create", "p"]), 0, &[]);
    for text in ["one", "two"] {
        std::fs::write(&script, text).unwrap();
        says(&server.ran(&["project", "put", "p", script.to_str().unwrap()]), 0, &[]);
        says(&server.ran(&["project", "build", "p"]), 0, &["is ready"]);
    }
    says(&server.ran(&["project", "cancel", "p"]), 0, &["had ended already, as ready: nothing was cancelled"]);

    let read = "cat $PROJECT_ROOT/x.txt";
    let first = server.ran(&["run", "p", "--version", "1", "--", "bash", "-c", read]);
    assert_eq!(first.stdout, "one", "{}", first.stderr);
    let session = first.stderr.lines().find_map(|line| line.strip_prefix("session ")).unwrap();
    says(&server.ran(&["project", "remove-version", "p", "1"]), 0, &[]);
    let pinned = server.ran(&["run", "p", "--session", session, "--", "bash", "-c", read]);
    says(&pinned, 125, &["version 1", &format!("`stead run p --session {session} --version active -- …`"), "for good"]);
    assert!(!pinned.stderr.contains("metadata"), "{}", pinned.stderr);
    for _ in 0..2 {
        let moved = ["run", "p", "--session", session, "--version", "active", "--", "bash", "-c", read];
        assert_eq!(server.ran(&moved).stdout, "two");
    }
    assert_eq!(server.ran(&["run", "p", "--session", session, "--", "bash", "-c", read]).stdout, "two");
    says(&server.ran(&["run", "p", "--version", "newest", "--", "true"]), 2, &["neither a number nor `active`"]);

    let save = here.path().join("out");
    let save = save.to_str().unwrap();
    let made = "head -c 200000 /dev/zero >large; echo s >small";
    says(
        &server.ran(&["run", "-", "--save", save, "--", "bash", "-c", made]),
        125,
        &["not kept: large", "error: not every file", "session"],
    );
    assert!(std::fs::exists(format!("{save}/small")).unwrap());
    says(&server.ran(&["run", "-", "--", "bash", "-c", made]), 0, &["not kept: large"]);
}

#[test]
fn a_note_begins_on_a_line_of_its_own() {
    needs_root!();
    let server = TestServer::start(&[]);
    let here = tempfile::tempdir().unwrap();
    let said = here.path().join("said");
    let file = std::fs::File::create(&said).unwrap();
    let mut run = server.command(&["run", "-", "--time-limit", "1", "--", "bash", "-c", "printf half; sleep 60"]);
    run.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
    assert_eq!(run.status().unwrap().code(), Some(124));
    let said = std::fs::read_to_string(&said).unwrap();
    assert!(said.contains("\nhalf\nthe script took longer"), "{said:?}");
}
