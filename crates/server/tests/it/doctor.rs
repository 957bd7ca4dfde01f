//! `stead doctor`.

use serde_json::Value;

use crate::program::{ran, stead};

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
    let finding = |report: &Value, name: &str| -> Value {
        let findings = report["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["name"] == name).unwrap().clone()
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
