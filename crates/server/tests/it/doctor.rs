//! `stead doctor`.

use std::os::unix::process::CommandExt;
use std::process::Stdio;

use serde_json::Value;

use crate::program::{STEAD, needs_root, ran, stead};
use crate::server::TestServer;

/// What doctor says with nothing beyond loopback asked for.
struct Examined {
    report: Value,
    text: String,
    process: u32,
}

/// The runtime that was built.
fn runtime_program() -> String {
    std::env::var("STEAD_RUNTIME").unwrap_or_else(|_| STEAD.replace("/stead", "/stead-runtime"))
}

/// Runs it as this user or another, and asserts that nothing required was found missing.
fn examined(user: Option<u32>) -> Examined {
    let home = tempfile::tempdir().unwrap();
    // Where the program was built, another user may not come.
    let runtime = home.path().join("stead-runtime");
    std::fs::copy(runtime_program(), &runtime).unwrap();
    let run = |json: bool| {
        let mut command = stead();
        command.arg("doctor").args(json.then_some("--json")).arg("--data").arg(home.path().join("data"));
        command.env("STEAD__RUNTIME__PATH", &runtime);
        command.env("STEAD__BUILDS__INDEX_URL", "http://127.0.0.1:9/simple");
        command.env("STEAD__BUILDS__NPM_REGISTRY", "http://127.0.0.2:9/");
        if let Some(user) = user {
            std::os::unix::fs::chown(home.path(), Some(user), Some(user)).unwrap();
            command.current_dir("/").uid(user).gid(user);
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let process = child.id();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (said, complaint) = (text(output.stdout), text(output.stderr));
        assert_eq!((output.status.code(), complaint.as_str()), (Some(0), ""), "{said}");
        (said, process)
    };
    let ((report, process), (text, _)) = (run(true), run(false));
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["ok"], &report["root"]), (&Value::Bool(true), &Value::Bool(user.is_none())));
    Examined { report, text, process }
}

fn finding(report: &Value, name: &str) -> Value {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["name"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
}

/// A sandbox was really started, and nothing that was tried in it succeeded.
fn assert_tried(report: &Value) {
    assert_eq!(finding(report, "trial")["standing"], "good");
    let attempts = report["trial"].as_array().unwrap();
    let refused = |name: &str| attempts.iter().find(|one| one["attempt"] == name && one["refused"] == true).is_some();
    for name in [
        "write to a layer",
        "make a layer writable",
        "mount a file system",
        "make a user namespace",
        "keep a capability",
        "let the host's core handler run",
        "open a vsock",
        "see another process",
        "connect to the host's loopback",
        "connect to an abstract socket of the host",
        "connect to another network",
        "start more processes than it may",
    ] {
        assert!(refused(name), "{name}: {attempts:#?}");
    }
    assert!(attempts.iter().all(|one| one["refused"] == true), "{attempts:#?}");
    // For the right reason, so that an attempt that cannot even be made does not count.
    let answer = |name: &str| {
        let one = attempts.iter().find(|one| one["attempt"] == name).unwrap();
        one["answer"].as_str().unwrap().to_owned()
    };
    assert!(answer("write to a layer").contains("Read-only file system"), "{}", answer("write to a layer"));
    assert!(answer("connect to the host's loopback").contains("refused"));
    assert!(answer("connect to another network").contains("unreachable"));
    assert!(answer("start more processes than it may").contains("temporarily unavailable"));
}

#[test]
fn as_root_each_session_has_ids_of_its_own_and_limits_are_tried() {
    needs_root!();
    let Examined { report, text, process } = examined(None);
    assert_tried(&report);
    assert_eq!(finding(&report, "user ids")["standing"], "good");
    assert_eq!(finding(&report, "user id range")["section"], "isolation");
    if finding(&report, "cgroup memory")["standing"] == "good" {
        assert_eq!(finding(&report, "trial of memory")["standing"], "good", "{report:#}");
    }
    for title in ["Isolation: ", "Limits: ", "Network: ", "Disk\n", "Tools: "] {
        assert!(text.contains(title), "{text}");
    }
    assert!(text.contains("to change it: ") && text.contains("Stead can run here."), "{text}");
    let leftover = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let leftover: Vec<_> = leftover
        .map(|entry| entry.path().join(format!("stead-doctor-{process}")))
        .filter(|path| path.exists())
        .collect();
    assert!(leftover.is_empty(), "{leftover:?}");
}

/// What belongs to a data directory is told while a server runs on it, and when one was killed; of a new one there is nothing.
#[test]
fn what_belongs_to_a_data_directory_is_listed() {
    needs_root!();
    let nowhere = tempfile::tempdir().unwrap();
    let said = |json: bool, data: &std::path::Path| {
        let mut command = stead();
        command.args(["doctor", "--leftovers", "--data"]).arg(data).args(json.then_some("--json"));
        let ran = ran(&mut command);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.stdout
    };
    let refused = ran(stead().args(["doctor", "--leftovers", "--data"]).arg(nowhere.path()));
    assert!(refused.status == 1 && refused.stderr.contains("no server was ever started on it"), "{}", refused.stderr);
    let mut server = TestServer::start(&[]);
    let ran = server.ran(&["run", "-", "--", "bash", "-c", "echo here"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    server.kill();
    let listed: Value = serde_json::from_str(&said(true, server.data())).unwrap();
    let kinds = ["process", "control_group", "slot", "run_directory", "environment_directory"];
    for kind in kinds {
        let mut all = listed["leftovers"].as_array().unwrap().iter().filter(|found| found["kind"] == kind);
        let found = all.find(|found| found["owner"]["kind"] == "environment");
        let owner = &found.unwrap_or_else(|| panic!("no {kind} of an environment in {listed:#}"))["owner"];
        assert!(owner["environment"].as_str().unwrap().starts_with("env_"), "{owner}");
    }
    let text = said(false, server.data());
    assert!(text.contains("process ") && text.ends_with("\nnothing of it is nobody's\n"), "{text}");
    server.start_again();
    server.terminate();
    let left = said(false, server.data());
    assert!(!left.contains("process ") && !left.contains("control group "), "{left}");
}

#[test]
fn an_ordinary_user_is_told_what_is_less_and_what_would_change_it() {
    needs_root!();
    let Examined { report, text, .. } = examined(Some(54_321));
    assert_tried(&report);
    for name in ["user ids", "egress proxy"] {
        let found = finding(&report, name);
        assert!(found["standing"] == "partial" && found["required"] == false && found["fix"].is_string(), "{found}");
    }
    let memory = finding(&report, "cgroup memory");
    assert!(memory["standing"] == "good" || memory["fix"].as_str().unwrap().contains("Delegate=yes"), "{memory}");
    assert!(text.contains("all sessions have the service's one user id"), "{text}");
}

#[test]
fn what_is_missing_is_named_with_what_would_help() {
    let data = tempfile::tempdir().unwrap();
    let doctor = |runtime: &str| {
        let mut command = stead();
        command.args(["doctor", "--json", "--data"]).arg(data.path().join("new"));
        command.env("STEAD__RUNTIME__PATH", runtime);
        // Nothing beyond loopback is asked for.
        command.env("STEAD__BUILDS__INDEX_URL", "http://127.0.0.1:9/simple");
        command.env("STEAD__BUILDS__NPM_REGISTRY", "http://127.0.0.2:9/");
        let ran = ran(&mut command);
        (ran.status, serde_json::from_str::<Value>(&ran.stdout).unwrap())
    };
    let (status, report) = doctor("/nonexistent/stead-runtime");
    assert_eq!((status, &report["ok"]), (1, &Value::Bool(false)));
    let runtime = finding(&report, "runtime program");
    assert!(runtime["required"] == true && runtime["standing"] == "missing" && runtime["fix"].is_string(), "{runtime}");
    let registry = finding(&report, "npm registry");
    let fix = "set builds.registry_hosts = [\"127.0.0.1\", \"127.0.0.2\"] in the configuration";
    assert_eq!((&registry["standing"], &registry["fix"]), (&"partial".into(), &fix.into()));
    assert_eq!(finding(&report, "seccomp")["required"], true);
    let (_, report) = doctor("/bin/sh");
    assert_eq!(finding(&report, "runtime program")["standing"], "missing");
    let (_, report) = doctor(&runtime_program());
    assert_eq!(finding(&report, "runtime program")["standing"], "good");
    assert!(!data.path().join("new").exists());
}

#[test]
fn registries_that_the_configuration_names_are_allowed() {
    let data = tempfile::tempdir().unwrap();
    let lines = "index_url = \"http://127.0.0.1:9/simple\"\nnpm_registry = \"http://127.0.0.2:9/\"\n";
    let standing = |hosts: &str, variable: Option<&str>| {
        let hosts = format!("[builds]\n{lines}registry_hosts = [{hosts}]\n");
        std::fs::write(data.path().join("stead.toml"), hosts).unwrap();
        let mut command = stead();
        command.args(["doctor", "--json", "--data"]).arg(data.path());
        command.envs(variable.map(|hosts| ("STEAD__BUILDS__REGISTRY_HOSTS", hosts)));
        let report: Value = serde_json::from_str(&ran(&mut command).stdout).unwrap();
        let of = |name: &str| {
            let findings = report["findings"].as_array().unwrap();
            findings.iter().find(|finding| finding["name"] == name).unwrap()["standing"].as_str().unwrap().to_owned()
        };
        [of("python registry"), of("npm registry")]
    };
    assert_eq!(standing("\"127.0.0.1\"", None), ["good", "partial"]);
    assert_eq!(standing("\"127.0.0.1\", \"127.0.0.2:9\"", None), ["good", "good"]);
    assert_eq!(standing("\"127.0.0.1\"", Some("127.0.0.2")), ["partial", "good"]);
}
