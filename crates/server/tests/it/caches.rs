//! What runs in a build reaches its own layer and nothing else: not what a later step or build installs, and not the next command.

use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{eventually, said, text, unfinished_builds};
use crate::program::needs_root;
use crate::server::TestServer;
use crate::toolchain;

/// A build back end in the project itself, which needs no registry. It does `ACT`, which may set `seen` and `more`, and makes a
/// package with one module.
const BACKEND: &str = r#"
import os, pathlib, subprocess, zipfile
CACHES = pathlib.Path("/var/cache/stead")
def build_wheel(directory, config_settings=None, metadata_directory=None):
    seen, more = None, {}
    ACT
    info = "NAME-1.dist-info/"
    files = {
        "NAME.py": f"SEEN = {seen!r}\n",
        info + "METADATA": "Metadata-Version: 2.1\nName: NAME\nVersion: 1\n",
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: NAME\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **more,
    }
    files[info + "RECORD"] = "".join(name + ",,\n" for name in [*files, info + "RECORD"])
    with zipfile.ZipFile(os.path.join(directory, "NAME-1-py3-none-any.whl"), "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return "NAME-1-py3-none-any.whl"
"#;

/// Adds to every file that the requirement of another step is installed from, and counts them.
const POISON: &str = r#"
    seen = 0
    for path in CACHES.rglob("six.py"):
        if path.is_file() and not path.is_symlink():
            seen += 1
            path.chmod(0o600)
            with path.open("ab") as file:
                file.write(b"\n# poisoned\n")
"#;

/// Says whether there is what somebody else left, and leaves it, in a directory that nobody may write to.
const PLANT: &str = r#"
    seen = (CACHES / "planted").exists()
    (CACHES / "planted").mkdir(mode=0o500)
"#;

/// Leaves a process behind, and in the package what each later start of the environment's Python runs.
const LEAVE: &str = r#"
    quiet = subprocess.DEVNULL
    subprocess.Popen(["/usr/bin/sleep", "4242"], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    more = {"look.pth": "import look\n", "look.py": pathlib.Path("look.py").read_text()}
"#;

/// Says in the build's log whether that process is still there.
const LOOK: &str = r#"
import os, sys
def runs(process):
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            return b"4242" in file.read()
    except OSError:
        return False
found = any(runs(process) for process in os.listdir("/proc") if process.isdecimal())
print("left behind:", "still there" if found else "gone", file=sys.stderr)
"#;

fn backend(name: &str, act: &str) -> String {
    BACKEND.replace("NAME", name).replace("    ACT\n", act)
}

fn pyproject(name: &str) -> String {
    format!(
        "[project]\nname = \"{name}\"\nversion = \"1\"\n\
         [build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n"
    )
}

/// What a session that reads the project says.
fn seen(api: &Api, harness: &str, environment: &str, script: &str) -> String {
    let body = json!({"input": script, "metadata": {"harness_id": harness, "environment": environment}});
    let answer: Value = api.ask(&body).ok();
    assert_eq!(answer["status"], "completed", "{answer:#}");
    said(&answer)
}

#[test]
fn what_a_build_back_end_does_to_caches_reaches_no_later_build() {
    needs_root!();
    let server = toolchain::networked(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    let pinned = "six==1.16.0 --hash=sha256:8abb2f1d86890a2dfb989f9a77cfcfd3e47c2a354b01111771326f8aa26e0254\n";
    let files = [
        ("requirements.txt", pinned),
        ("pyproject.toml", &pyproject("demo")),
        ("backend.py", &backend("demo", POISON)),
    ];
    let look = "python -c 'import demo; print(demo.SEEN)' 2>&1 | tail -1; \
        grep -rl poisoned .venv/lib | wc -l; cat .venv/lib/python3*/site-packages/six.py | sha256sum";
    let look = format!("cd $PROJECT_ROOT; {look}");
    let poisoner = api.environment("poison", &files);
    api.build(&poisoner);
    let first = seen(&api, &harness, &poisoner, &look);
    let six = first.lines().nth(2).unwrap().to_owned();
    assert_eq!(first, format!("0\n0\n{six}\n"), "the step saw what another one downloaded");

    // The pins again, under another key, without the back end; as a build of the same project, as a fresh one, and as one of
    // another project of that name, which may take a layer that is there.
    for path in ["pyproject.toml", "backend.py"] {
        api.delete(&format!("/v1/environments/{poisoner}/files/{path}"));
    }
    let again = format!("{pinned}# Once more.\n");
    api.put(&poisoner, "requirements.txt", &again);
    let record = api.build(&poisoner);
    assert!(text(&record["log"]).contains("pip install -r requirements.txt: installing"), "{record:#}");
    let clean = format!("ModuleNotFoundError: No module named 'demo'\n0\n{six}\n");
    assert_eq!(seen(&api, &harness, &poisoner, &look), clean);
    let begun = api.send("POST", &format!("/v1/environments/{poisoner}/build?fresh=1"), &[], b"").ok();
    let record = api.ended_build(&poisoner, begun["version"].as_u64().unwrap());
    assert_eq!(record["status"], "ready", "{record:#}");
    assert_eq!(seen(&api, &harness, &poisoner, &look), clean);
    api.delete(&format!("/v1/environments/{poisoner}")).ok();
    let heir = api.environment("poison", &[("requirements.txt", &again)]);
    api.build(&heir);
    assert_eq!(seen(&api, &harness, &heir, &look), clean);
}

#[test]
fn each_step_begins_with_an_empty_cache_of_its_own() {
    needs_root!();
    let mut server = TestServer::start(&[("sessions.network", "disabled")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let node = r#"{"name": "a", "version": "1.0.0", "scripts": {"install": "mkdir -p node_modules; ls -A /var/cache/stead | grep planted > node_modules/seen; mkdir /var/cache/stead/planted"}}"#;
    let setup = "ls -A /var/cache/stead | grep planted > kept; mkdir -m 500 /var/cache/stead/planted";
    // Two Python steps that run the project's own code, one after the other, then one of Node beside them and one of the script.
    let project = api.environment(
        "planted",
        &[
            ("requirements.txt", "./lib\n"),
            ("lib/pyproject.toml", &pyproject("lib")),
            ("lib/backend.py", &backend("lib", PLANT)),
            ("pyproject.toml", &pyproject("demo")),
            ("backend.py", &backend("demo", PLANT)),
            ("package.json", node),
            ("setup.sh", setup),
        ],
    );
    let look = "python -c 'import demo, lib; print(lib.SEEN, demo.SEEN)'; cat $NODE_PATH/seen $PROJECT_ROOT/kept";
    for (edit, query) in [("1", ""), ("2", ""), ("3", "?fresh=1")] {
        // Every step but that of Node reads the whole source.
        api.put(&project, "edit.txt", edit);
        api.put(&project, ".npmrc", &format!("init-author-name={edit}\n"));
        let begun = api.send("POST", &format!("/v1/environments/{project}/build{query}"), &[], b"").ok();
        let record = api.ended_build(&project, begun["version"].as_u64().unwrap());
        assert_eq!(record["status"], "ready", "{record:#}");
        assert!(!text(&record["log"]).contains("nothing to install"), "{}", text(&record["log"]));
        assert_eq!(seen(&api, &harness, &project, look), "False False\n", "build {edit}");
        assert_eq!(unfinished_builds(&server), [""; 0], "caches go with the build");
    }

    // Those that an earlier release kept go as well.
    server.terminate();
    let kept = server.data().join("caches");
    std::fs::create_dir_all(kept.join("workspace/project/python/uv")).unwrap();
    std::fs::write(kept.join("workspace/project/python/uv/archive"), "poisoned").unwrap();
    server.start_again();
    eventually("the end of kept caches", || if kept.exists() { Err("there".to_owned()) } else { Ok(()) });
}

#[test]
fn what_a_command_leaves_running_is_gone_in_the_next() {
    needs_root!();
    let server = TestServer::start(&[("sessions.network", "disabled")]);
    let api = Api::of(&server);
    let files = [("pyproject.toml", &*pyproject("demo")), ("backend.py", &backend("demo", LEAVE)), ("look.py", LOOK)];
    let record = api.build(&api.environment("left", &files));
    let log = text(&record["log"]);
    assert!(log.contains("left behind: gone") && !log.contains("left behind: still there"), "{log}");
}
