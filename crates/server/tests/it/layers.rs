//! Layers hold what their inputs say and nothing else: no path of another project, nothing stale, nothing of another tenant.

use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{said, text};
use crate::program::needs_root;
use crate::server::TestServer;

/// A build backend in the project itself, which needs no registry: a module, and a command that says what the module holds.
const BACKEND: &str = r#"
import os, zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    info = "demo-1.dist-info/"
    files = {
        "demo.py": open("demo.py").read(),
        info + "METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1\n",
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: demo\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        info + "entry_points.txt": "[console_scripts]\ndemo = demo:main\n",
    }
    files[info + "RECORD"] = "".join(name + ",,\n" for name in [*files, info + "RECORD"])
    with zipfile.ZipFile(os.path.join(directory, "demo-1-py3-none-any.whl"), "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return "demo-1-py3-none-any.whl"
"#;
const PYPROJECT: &str = "[project]\nname = \"demo\"\nversion = \"1\"\n\
    [build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n";

fn module(value: &str) -> String {
    format!("VALUE = {value:?}\ndef main():\n    print(VALUE)\n")
}

/// What a session that reads the project says.
fn seen(api: &Api, harness: &str, environment: &str, script: &str) -> String {
    let body = json!({"input": script, "metadata": {"harness_id": harness, "environment": environment}});
    let answer: Value = api.ask(&body).ok();
    assert_eq!(answer["status"], "completed", "{answer:#}");
    said(&answer)
}

#[test]
fn two_builds_of_one_project_at_different_places_share_no_path() {
    needs_root!();
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    let files = [
        ("pyproject.toml", PYPROJECT),
        ("backend.py", BACKEND),
        ("demo.py", &module("here")),
        (
            "package.json",
            r#"{"name": "a", "version": "1.0.0", "scripts": {"install": "mkdir -p node_modules && pwd > node_modules/place"}}"#,
        ),
        ("setup.sh", "printf '#!/bin/sh\\necho %s\\n' \"$PROJECT_ROOT\" > tool; chmod +x tool"),
    ];
    for (name, other) in [("place one", "place-two"), ("place two", "place-one"), ("place one more", "place-one/")] {
        let id = api.environment(name, &files);
        let record = api.build(&id);
        assert!(!text(&record["log"]).contains("nothing to install"), "{}", text(&record["log"]));
        let mount = format!("/env/{}", name.replace(' ', "-"));
        let script = format!(
            "demo; head -1 $(command -v demo); cat $NODE_PATH/place; $PROJECT_ROOT/tool; $VIRTUAL_ENV/bin/python -c 'import sys; print(sys.prefix)'\n\
             grep -raF '/env/{other}' $PROJECT_ROOT | head -3; grep -raF /data/ $PROJECT_ROOT | grep -aF stead | head -3"
        );
        let expected = format!("here\n#!{mount}/.venv/bin/python\n{mount}\n{mount}\n{mount}/.venv\n");
        let found = seen(&api, &harness, &id, &script).replace("bin/python3\n", "bin/python\n");
        assert_eq!(found, expected, "{name}");
    }
}

/// One project of one tenant in the poisoning test.
struct Tenant<'a> {
    api: &'a Api,
    harness: String,
    id: String,
}

impl<'a> Tenant<'a> {
    fn new(api: &'a Api, name: &str, value: &str) -> Self {
        let files = [
            ("requirements.txt", "-r other.txt\n"),
            ("other.txt", "./lib\n"),
            ("lib/pyproject.toml", PYPROJECT),
            ("lib/backend.py", BACKEND),
            // Read by nobody: a project's own files do not steer the server's installers.
            ("pip.conf", "[install]\ntarget = /nowhere\n[global]\nindex-url = http://127.0.0.1:1/\n"),
            ("uv.toml", "this is not TOML"),
            (
                "package.json",
                r#"{"name": "a", "version": "1.0.0", "scripts": {"install": "mkdir -p node_modules && (cat value.txt; npm config get init-author-name) > node_modules/seen"}}"#,
            ),
            ("setup.sh", "cat value.txt > kept"),
        ];
        let tenant = Self { api, harness: api.harness(), id: api.environment(name, &files) };
        tenant.values(value, value, value);
        tenant
    }

    /// What the Python package, the Node script and npm's configuration are to show.
    fn values(&self, python: &str, node: &str, config: &str) {
        self.api.put(&self.id, "lib/demo.py", &module(python));
        self.api.put(&self.id, "value.txt", &format!("{node}\n"));
        self.api.put(&self.id, ".npmrc", &format!("init-author-name={config}\n"));
    }

    fn build(&self) -> String {
        text(&self.api.build(&self.id)["log"]).to_owned()
    }

    fn shows(&self, python: &str, node: &str, config: &str) {
        let script = "demo; cat $NODE_PATH/seen $PROJECT_ROOT/kept";
        let found = seen(self.api, &self.harness, &self.id, script);
        assert_eq!(found, format!("{python}\n{node}\n{config}\n{node}\n"));
    }
}

#[test]
fn no_layer_is_stale_and_none_is_another_tenants() {
    needs_root!();
    let server = TestServer::start(&[]);
    let theirs = Api::of_tenant(&server, "second");
    let ours = Api::of(&server);
    let first = Tenant::new(&ours, "demo", "v1");
    assert!(!first.build().contains("nothing to install"));
    first.shows("v1", "v1", "v1");
    // The same bytes at the same place, of another tenant; and of the same tenant at another place: both install for themselves.
    let second = Tenant::new(&theirs, "demo", "v1");
    let beside = Tenant::new(&ours, "beside", "v1");
    for tenant in [&second, &beside] {
        assert!(!tenant.build().contains("nothing to install"));
        tenant.shows("v1", "v1", "v1");
    }
    // Nothing changed: nothing is installed, and what is there is right.
    assert_eq!(first.build().matches("nothing to install").count(), 3);
    // Each input in turn, and then everything back, which takes the first layers again.
    for (python, node, config) in [("v2", "v1", "v1"), ("v2", "v2", "v1"), ("v2", "v2", "v2"), ("v1", "v1", "v1")] {
        first.values(python, node, config);
        first.build();
        first.shows(python, node, config);
        second.shows("v1", "v1", "v1");
    }
    // What a file includes is an input as well.
    ours.put(&first.id, "other.txt", "# nothing any more\n");
    first.build();
    let gone = seen(&ours, &first.harness, &first.id, "command -v demo || echo gone");
    assert_eq!(gone, "gone\n");
    second.shows("v1", "v1", "v1");
    beside.shows("v1", "v1", "v1");
}
