//! The client without a server.

use serde_json::Value;

use crate::program::{ran, stead};

#[test]
fn help_is_data_and_names_every_command() {
    let help = ran(stead().arg("--help"));
    assert_eq!((help.status, help.stderr.as_str()), (0, ""));
    for command in ["serve", "doctor", "key", "package", "project", "run", "runtimes", "session", "workspace"] {
        assert!(help.stdout.lines().any(|line| line.trim_start().starts_with(command)), "{command}\n{}", help.stdout);
    }
    let project = ran(stead().args(["project", "--help"]));
    let commands: Vec<&str> = project
        .stdout
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        // What is indented more is the rest of a line that was too long.
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let expected = [
        "create",
        "set",
        "list",
        "show",
        "files",
        "import",
        "put",
        "get",
        "chmod",
        "rm",
        "build",
        "log",
        "cancel",
        "versions",
        "activate",
        "remove-version",
        "delete",
        "help",
    ];
    assert_eq!(commands, expected);
}

#[test]
fn a_server_that_is_not_there_is_said_with_a_hint() {
    // Port 1 needs privileges to listen on and has no server in any test environment.
    let refused = ran(stead().args(["--url", "http://127.0.0.1:1", "--key", "k", "project", "list"]));
    assert_eq!((refused.status, refused.stdout.as_str()), (1, ""));
    let expected = "error: no server answers at http://127.0.0.1:1/: ";
    assert!(refused.stderr.starts_with(expected), "{}", refused.stderr);
    let hint = "\n\nhint: start one with `stead serve`, or name another with --url or STEAD_URL\n";
    assert!(refused.stderr.ends_with(hint), "{}", refused.stderr);
}

#[test]
fn wrong_usage_has_a_status_of_its_own() {
    for arguments in [
        &["run", "demo"][..],
        &["project", "put", "demo", "/etc/hostname", "../x"],
        &["run", "demo", "--time-limit", "5x", "--", "true"],
        &["key", "create", "k", "--verb", "fly"],
        &["--url", "ftp://x", "project", "list"],
        &["nothing"],
    ] {
        let wrong = ran(stead().env("STEAD_URL", "http://127.0.0.1:1").args(arguments));
        assert_eq!((wrong.status, wrong.stdout.as_str()), (2, ""), "{arguments:?}: {}", wrong.stderr);
    }
}

#[test]
fn with_json_an_error_is_one_object_and_run_has_a_status_of_its_own() {
    let error = |arguments: &[&str], status: i32| -> Value {
        let mut command = stead();
        command.args(["--url", "http://127.0.0.1:1", "--key", "k", "--json"]).args(arguments);
        let failed = ran(&mut command);
        assert_eq!((failed.status, failed.stdout.as_str()), (status, ""), "{arguments:?}: {}", failed.stderr);
        serde_json::from_str::<Value>(&failed.stderr).unwrap()["error"].take()
    };
    let unreachable = error(&["project", "list"], 1);
    assert!(unreachable["code"] == "unreachable" && unreachable["hint"].is_string(), "{unreachable}");
    assert_eq!(error(&["run", "demo", "--", "true"], 125)["code"], "unreachable");
    assert_eq!(error(&["run", "demo"], 2)["code"], "usage");
    // A directory that cannot be made is found out before anything is asked of the server.
    let unsavable = error(&["run", "-", "--save", "/dev/null/x", "--", "true"], 125);
    assert!(unsavable["message"].as_str().unwrap().contains("/dev/null/x"), "{unsavable}");
}

#[test]
fn lists_have_their_short_name() {
    for noun in ["project", "session", "key", "workspace"] {
        let help = ran(stead().args([noun, "--help"]));
        assert!(help.stdout.contains("[alias: ls]"), "{}", help.stdout);
        let listed = ran(stead().args(["--url", "http://127.0.0.1:1", noun, "ls"]));
        assert_eq!(listed.status, 1, "{}", listed.stderr);
    }
    let run = ran(stead().args(["run", "--help"]));
    assert!(run.stdout.contains("Standard input is not passed on") && run.stdout.contains("125"), "{}", run.stdout);
}

#[test]
fn a_secret_of_the_environment_is_not_shown_in_help() {
    let help = ran(stead().env("STEAD_KEY", "stead_topsecret").arg("--help"));
    assert!(!help.stdout.contains("topsecret"));
}
