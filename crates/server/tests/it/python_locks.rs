//! Projects with a lock of uv, Poetry or Pipenv: what the lock names is installed, and a lock that no longer fits is refused.
//!
//! The locks name indexes that do not exist, as the locks of a project do for a server that has a mirror: versions and hashes
//! are what counts.

use std::process::Command;

use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{said, text};
use crate::program::needs_root;
use crate::server::TestServer;
use crate::toolchain;

const UV_LOCK: &str = include_str!("../locks/uv.lock");
const UV_MANIFEST: &str = include_str!("../locks/uv.pyproject.toml");
const HELPER_MANIFEST: &str = include_str!("../locks/helper.pyproject.toml");
const POETRY_LOCK: &str = include_str!("../locks/poetry.lock");
const POETRY_MANIFEST: &str = include_str!("../locks/poetry.pyproject.toml");
const PIPENV_LOCK: &str = include_str!("../locks/Pipfile.lock");
const PIPFILE: &str = include_str!("../locks/Pipfile");

/// The packages of a build as `name version`.
fn packages(record: &Value) -> Vec<String> {
    let listed = record["packages"].as_array().unwrap().iter();
    listed.map(|package| format!("{} {}", text(&package["name"]), text(&package["version"]))).collect()
}

/// The steps that a build did not find done already.
fn installed(record: &Value) -> Vec<&str> {
    text(&record["log"]).lines().filter_map(|line| line.strip_suffix(": installing")).collect()
}

fn python(api: &Api, harness: &str, project: &str, code: &str) -> String {
    let input = format!("cd /tmp && python -c '{code}'");
    said(&api.ask(&json!({"input": input, "metadata": {"harness_id": harness, "environment": project}})).ok())
}

#[test]
fn a_project_of_uv_gets_what_its_lock_names_and_an_edit_installs_the_project_alone() {
    needs_root!();
    let server = toolchain::networked(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    let project = api.environment(
        "locked",
        &[
            ("pyproject.toml", UV_MANIFEST),
            ("uv.lock", UV_LOCK),
            ("locked/__init__.py", "V = 1\n"),
            ("libs/helper/pyproject.toml", HELPER_MANIFEST),
            ("libs/helper/helper.py", "V = 1\n"),
        ],
    );
    let first = api.build(&project);
    assert_eq!(packages(&first), ["helper 1.0", "iniconfig 2.0.0", "locked 1.0", "six 1.16.0"]);
    assert_eq!(installed(&first).len(), 2, "{}", text(&first["log"]));
    let code = "import locked, helper, six, iniconfig; print(locked.V, helper.V, six.__version__)";
    assert_eq!(python(&api, &harness, &project, code), "1 1 1.16.0\n");
    // The copy that was installed, and not the directory in the source, is what has to be new.
    let code = "import helper; print(helper.V, \"site-packages\" in helper.__file__)";
    for (path, content) in [("libs/helper/helper.py", "V = 2\n"), ("notes.txt", "x")] {
        api.put(&project, path, content);
        let edited = api.build(&project);
        let steps = installed(&edited);
        assert!(steps.len() == 1 && steps[0].contains("the project's own packages"), "{}", text(&edited["log"]));
        assert_eq!(python(&api, &harness, &project, code), "2 True\n");
    }
}

#[test]
fn projects_of_poetry_and_pipenv_get_what_their_locks_name() {
    needs_root!();
    let server = toolchain::networked(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    for (name, files) in [
        ("verse", [("pyproject.toml", POETRY_MANIFEST), ("poetry.lock", POETRY_LOCK)]),
        ("piped", [("Pipfile", PIPFILE), ("Pipfile.lock", PIPENV_LOCK)]),
    ] {
        let project = api.environment(name, &files);
        let record = api.build(&project);
        assert_eq!(packages(&record), ["iniconfig 2.0.0"]);
        let code = "import iniconfig; print(iniconfig.__file__)";
        let place = format!("/env/{name}/.venv/");
        assert!(python(&api, &harness, &project, code).starts_with(&place));
        api.put(&project, "main.py", "print(1)\n");
        assert!(installed(&api.build(&project)).is_empty());
    }
    // A hash that no archive has is the end of a build.
    let wrong = POETRY_LOCK.replace("sha256:b6a85871", "sha256:00000000").replace("sha256:2d91e135", "sha256:00000000");
    let project = api.environment("tampered", &[("pyproject.toml", POETRY_MANIFEST), ("poetry.lock", &wrong)]);
    let number = api.begin_build(&project);
    let record = api.ended_build(&project, number);
    assert_eq!(record["status"], "failed", "{record:#}");
    assert!(text(&record["log"]).to_lowercase().contains("hash"), "{}", text(&record["log"]));
}

#[test]
fn a_lock_that_does_not_fit_its_manifest_ends_the_build_by_name() {
    needs_root!();
    let server = TestServer::start(&[("sessions.network", "disabled")]);
    let api = Api::of(&server);
    let changed = |text: &str| text.replace("2.0.0", "2.1.0");
    for (name, lock, files) in [
        ("locked", "uv.lock", [("pyproject.toml", changed(UV_MANIFEST)), ("uv.lock", UV_LOCK.to_owned())]),
        (
            "verse",
            "poetry.lock",
            [("pyproject.toml", changed(POETRY_MANIFEST)), ("poetry.lock", POETRY_LOCK.to_owned())],
        ),
        ("piped", "Pipfile.lock", [("Pipfile", changed(PIPFILE)), ("Pipfile.lock", PIPENV_LOCK.to_owned())]),
    ] {
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let project = api.environment(name, &files);
        let number = api.begin_build(&project);
        let record = api.ended_build(&project, number);
        assert_eq!(record["status"], "failed", "{record:#}");
        let error = text(&record["error"]);
        assert!(error.contains(&format!("`{lock}` cannot be used: it does not fit {}", files[0].0)), "{error}");
    }
}

/// A wheel of one module, which holds `value`.
fn wheel(name: &str, value: &str) -> Vec<u8> {
    let script = r#"
import io, sys, zipfile
name, value = sys.argv[1:]
info = f"{name}-1.0.dist-info/"
files = {
    f"{name}.py": f"V = {value!r}\n",
    info + "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
    info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
files[info + "RECORD"] = "".join(path + ",,\n" for path in [*files, info + "RECORD"])
made = io.BytesIO()
with zipfile.ZipFile(made, "w") as wheel:
    for path, content in files.items():
        wheel.writestr(zipfile.ZipInfo(path), content)
sys.stdout.buffer.write(made.getvalue())
"#;
    let made = Command::new("/usr/bin/python3").args(["-c", script, name, value]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    made.stdout
}

fn put_wheel(api: &Api, project: &str, name: &str, content: &[u8]) {
    let path = format!("/v1/environments/{project}/files/wheels/{name}-1.0-py3-none-any.whl");
    api.send("PUT", &path, &[], content).ok();
}

#[test]
fn a_changed_wheel_of_the_same_name_is_the_one_that_is_installed() {
    needs_root!();
    let server = toolchain::networked(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    for (name, requirements) in [
        ("linked", "--no-index\n-f wheels\nkept==1.0\n"),
        ("named", "--no-index\n./wheels/kept-1.0-py3-none-any.whl\n"),
        ("ranged", "--no-index\n-f wheels\nkept\n"),
    ] {
        let project = api.environment(name, &[("requirements.txt", requirements)]);
        for value in ["one", "two"] {
            put_wheel(&api, &project, "kept", &wheel("kept", value));
            api.build(&project);
            assert_eq!(python(&api, &harness, &project, "import kept; print(kept.V)"), format!("{value}\n"), "{name}");
        }
    }
}

#[test]
fn one_hash_in_requirements_lets_nothing_in_without_its_own() {
    needs_root!();
    let server = toolchain::networked(&[]);
    let api = Api::of(&server);
    let front = "--no-index\n-f wheels\n";
    let (content, zeros) = (wheel("kept", "one"), "0".repeat(64));
    let script = "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], \"rb\").read()).hexdigest())";
    let place = server.data().join("kept.whl");
    std::fs::write(&place, &content).unwrap();
    let hashed = Command::new("/usr/bin/python3").args(["-c", script]).arg(&place).output().unwrap();
    let hash = String::from_utf8(hashed.stdout).unwrap().trim().to_owned();
    for (name, lines, more, ready) in [
        ("whole", format!("kept==1.0 --hash=sha256:{hash}\n"), String::new(), true),
        ("wrong", format!("kept==1.0 --hash=sha256:{zeros}\n"), String::new(), false),
        ("ranged", format!("kept>=1.0 --hash=sha256:{zeros}\n"), String::new(), false),
        ("beside", format!("other==1.0\nkept==1.0 --hash=sha256:{hash}\n"), String::new(), false),
        ("included", "other==1.0\n-r more.txt\n".to_owned(), format!("kept==1.0 --hash=sha256:{hash}\n"), false),
    ] {
        let files = [("requirements.txt", format!("{front}{lines}")), ("more.txt", more)];
        let project = api.environment(name, &files.each_ref().map(|(path, text)| (*path, text.as_str())));
        put_wheel(&api, &project, "kept", &content);
        put_wheel(&api, &project, "other", &wheel("other", "one"));
        let record = api.ended_build(&project, api.begin_build(&project));
        assert_eq!(record["status"] == "ready", ready, "{name}: {record:#}");
        assert!(ready || text(&record["log"]).to_lowercase().contains("hash"), "{name}: {}", text(&record["log"]));
    }
}
