//! What an owner declares besides the manifests: packages of pip, npm and apt, and the interpreter. What is declared is there in
//! a session, beside what manifests ask for; what cannot be had fails by name, and what is no package is refused by name.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{said, text};
use crate::program::needs_root;
use crate::server::TestServer;
use crate::toolchain::{self, skip};

/// Nothing lies behind the wrapper but the machine's own interpreter.
const INTERPRETER: &str = "#!/bin/sh
case $* in
    *python_version*) echo 3.99.1 ;;
    *ensurepip.version*) echo 24.0 ;;
    *) exec /usr/bin/python3 \"$@\" ;;
esac
";

fn declare(api: &Api, environment: &str, body: &Value) {
    let mut body = body.clone();
    body["name"] = environment.into();
    let path = format!("/v1/environments/{environment}");
    let sent = serde_json::to_vec(&body).unwrap();
    api.send("PUT", &path, &[("content-type", "application/json")], &sent).ok();
}

fn session(api: &Api, harness: &str, environment: &str, script: &str) -> String {
    said(&api.ask(&json!({"input": script, "metadata": {"harness_id": harness, "environment": environment}})).ok())
}

/// The packages of a build as `manager name version`.
fn packages(record: &Value) -> Vec<String> {
    let listed = record["packages"].as_array().unwrap().iter();
    let words =
        |package: &Value| ["manager", "name", "version"].map(|field| text(&package[field]).to_owned()).join(" ");
    listed.map(words).collect()
}

/// Builds, which must fail, and returns its error.
fn fails(api: &Api, environment: &str) -> String {
    let record = api.ended_build(environment, api.begin_build(environment));
    assert_eq!(record["status"], "failed", "{record:#}");
    text(&record["error"]).to_owned()
}

#[test]
fn declared_packages_stand_beside_those_of_manifests() {
    needs_root!();
    let server = toolchain::networked(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    let environment = api.environment("declared", &[]);
    // Nothing is there but the declaration.
    declare(&api, &environment, &json!({"packages": {"pip": ["six==1.16.0"], "npm": ["is-odd@3.0.1"]}}));
    let record = api.build(&environment);
    let listed = packages(&record);
    for package in ["pip six 1.16.0", "npm is-odd 3.0.1"] {
        assert!(listed.iter().any(|listed| listed == package), "{listed:?}");
    }
    let script = "python3 -c 'import six; print(six.__version__)'; node -p 'require(\"is-odd\")(3)'";
    assert_eq!(session(&api, &harness, &environment, script), "1.16.0\ntrue\n");

    // A lock's own versions stay what they are, and a manifest's come after the declared ones.
    let lock = r#"{"lockfileVersion":3,"packages":{"":{"dependencies":{"ms":"^2.0.0"}},"node_modules/ms":{"version":"2.1.1"}}}"#;
    api.put(&environment, "package.json", r#"{"dependencies":{"ms":"^2.0.0"}}"#);
    api.put(&environment, "package-lock.json", lock);
    api.put(&environment, "requirements.txt", "six==1.17.0\n");
    let record = api.build(&environment);
    let listed = packages(&record);
    for package in ["pip six 1.17.0", "npm ms 2.1.1", "npm is-odd 3.0.1"] {
        assert!(listed.iter().any(|listed| listed == package), "{listed:?}");
    }
    let script =
        "node -p 'require(\"ms/package.json\").version + require(\"is-odd\")(3)'; cat $PROJECT_ROOT/package-lock.json";
    assert_eq!(session(&api, &harness, &environment, script), format!("2.1.1true\n{lock}"));
    assert!(text(&record["log"]).contains("pip install six==1.16.0: nothing to install"), "{}", record["log"]);

    // What pnpm installed stays as it is, too.
    if server.data().join("toolchains/pnpm").exists() {
        let environment = api.environment(
            "beside",
            &[("package.json", r#"{"packageManager":"pnpm@10.0.0","dependencies":{"ms":"2.1.3"}}"#)],
        );
        declare(&api, &environment, &json!({"packages": {"npm": ["is-odd@3.0.1"]}}));
        let listed = packages(&api.build(&environment));
        assert_eq!(listed, ["npm is-number 6.0.0", "npm is-odd 3.0.1", "npm ms 2.1.3"]);
        let script = "node -p 'require(\"ms\")(1000) + require(\"is-odd\")(3)'; test -L $PROJECT_ROOT/node_modules/ms && echo link";
        assert_eq!(session(&api, &harness, &environment, script), "1strue\nlink\n");
    } else {
        skip("pnpm is not among the tools");
    }

    declare(&api, &environment, &json!({"packages": {"pip": ["six==0.0.99"]}}));
    let error = fails(&api, &environment);
    assert!(error.contains("six==0.0.99"), "{error}");
}

#[test]
fn system_packages_are_unpacked_into_the_version_and_pins_are_kept() {
    needs_root!();
    if !Path::new("/usr/bin/apt-get").exists() {
        return skip("this machine has no apt");
    }
    let server = toolchain::networked(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    let environment = api.environment("system", &[("setup.sh", "command -v hello; ls -d apt/usr\n")]);
    declare(&api, &environment, &json!({"packages": {"apt": ["hello"]}}));
    let installed_before = std::fs::metadata("/var/lib/dpkg/status").unwrap().modified().unwrap();
    let record = api.build(&environment);
    let log = text(&record["log"]);
    assert!(log.contains("/env/system/apt/usr/bin/hello\napt/usr\n"), "{log}");
    let listed = packages(&record);
    let package = listed.iter().find(|listed| listed.starts_with("apt hello ")).unwrap_or_else(|| panic!("{listed:?}"));
    assert_eq!(std::fs::metadata("/var/lib/dpkg/status").unwrap().modified().unwrap(), installed_before);
    // No file of apt's own is there: sources may hold passwords.
    let script =
        "command -v hello; hello; ls /etc/apt /var/lib/dpkg /opt/stead/apt 2>/dev/null; stat -c %a $(command -v hello)";
    assert_eq!(session(&api, &harness, &environment, script), "/env/system/apt/usr/bin/hello\nHello, world!\n555\n");

    let version = package.trim_start_matches("apt hello ");
    declare(&api, &environment, &json!({"packages": {"apt": [format!("hello={version}")]}}));
    assert!(packages(&api.build(&environment)).contains(package));
    for spec in ["hello=0.0.99", "stead-no-such-package-0f3a"] {
        declare(&api, &environment, &json!({"packages": {"apt": [spec]}}));
        let error = fails(&api, &environment);
        assert!(error.contains(spec), "{error}");
    }
}

#[test]
fn the_declared_interpreter_is_used_and_versions_of_it_stay_with_servers_that_have_it() {
    needs_root!();
    let mut server = TestServer::start_prepared(&[], |data| {
        let program = data.join("toolchains/python3.99/bin/python3.99");
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        std::fs::write(&program, INTERPRETER).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    });
    let api = Api::of(&server);
    let runtimes = api.get("/v1/environments/runtimes").ok();
    let minors = runtimes["python"].as_array().unwrap();
    assert!(minors.len() >= 2 && minors.contains(&json!("3.99")), "{runtimes}");
    let harness = api.harness();
    let environment = api.environment("interpreter", &[("main.py", "print(1)\n")]);
    declare(&api, &environment, &json!({"runtime": {"python": "3.99"}}));
    let log = api.build(&environment)["log"].clone();
    assert!(text(&log).contains("python 3.99, ") && text(&log).contains("python 3.99: installing"), "{log}");
    let ask = json!({"input": "echo $VIRTUAL_ENV", "metadata": {"harness_id": harness, "environment": environment}});
    assert_eq!(said(&api.ask(&ask).ok()), "/env/interpreter/.venv\n");

    // One that is not here is replaced by the default, loudly.
    let other = api.environment("other", &[("main.py", "print(1)\n")]);
    declare(&api, &other, &json!({"runtime": {"python": "3.98"}}));
    let log = api.build(&other)["log"].clone();
    assert!(text(&log).contains("WARNING: Python 3.98 was declared"), "{log}");

    server.terminate();
    std::fs::remove_dir_all(server.data().join("toolchains/python3.99")).unwrap();
    server.start_again();
    let api = Api::of(&server);
    let refused = api.ask(&ask);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (409, &json!("environment_not_ready")));
    assert!(refused.text().contains("python 3.99"), "{}", refused.text());
    let ask = json!({"input": "echo yes", "metadata": {"harness_id": harness, "environment": other}});
    assert_eq!(said(&api.ask(&ask).ok()), "yes\n");
}

#[test]
fn what_names_no_package_is_refused_by_name() {
    needs_root!();
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    for (body, param) in [
        (json!({"packages": {"pip": ["six", "--index-url=http://x"]}}), "packages.pip"),
        (json!({"packages": {"npm": ["a@file:../x"]}}), "packages.npm"),
        (json!({"packages": {"apt": ["jq; reboot"]}}), "packages.apt"),
        (json!({"packages": {"gem": ["rails"]}}), "packages.gem"),
        (json!({"runtime": {"python": "3"}}), "runtime.python"),
    ] {
        let mut body = body;
        body["name"] = "refused".into();
        let refused = api.post("/v1/environments", &body);
        let error = &refused.json()["error"];
        assert_eq!(
            (refused.status, &error["code"], &error["param"]),
            (422, &json!("environment_invalid"), &json!(param))
        );
    }
    assert_eq!(api.get("/v1/environments").ok()["environments"], json!([]));

    // The command line writes and reads the same.
    let made = server.ran(&["project", "create", "Tools", "--pip", "six>=1,<2", "--apt", "jq", "--python", "3.12"]);
    assert_eq!(made.status, 0, "{}", made.stderr);
    assert_eq!(server.ran(&["project", "set", "tools", "--apt", "", "--npm", "ms"]).status, 0);
    let shown = server.ran(&["project", "show", "tools"]).stdout;
    assert!(shown.contains("pip six>=1,<2") && shown.contains("npm ms") && shown.contains("3.12"), "{shown}");
    assert!(!shown.contains("apt"), "{shown}");
    assert_eq!(server.ran(&["project", "set", "tools"]).status, 2);
    let refused = server.ran(&["project", "set", "tools", "--pip", "./here"]);
    assert!(refused.status == 1 && refused.stderr.contains("`./here`"), "{}", refused.stderr);
}
