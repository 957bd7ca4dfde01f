//! Projects with a lock of npm, pnpm or Yarn, and workspaces: what the lock names is installed, is there in a session, is not
//! installed again for an edit of the source, and a lock that no longer fits is refused.

use std::process::Command;

use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{said, text};
use crate::program::needs_root;
use crate::toolchain;

const PNPM_9: &str = include_str!("../locks/pnpm-9.yaml");
const PNPM_6: &str = include_str!("../locks/pnpm-6.yaml");
/// Its archives are said to lie on a host that does not exist: they come from the server's registry.
const YARN_1: &str = include_str!("../locks/yarn-1.lock");
const YARN_6: &str = include_str!("../locks/yarn-6.lock");
const YARN_8: &str = include_str!("../locks/yarn-8.lock");
const NPM_WORKSPACE: &str = include_str!("../locks/workspace.package-lock.json");
const PNPM_WORKSPACE: &str = include_str!("../locks/workspace.pnpm-lock.yaml");
const YARN_1_WORKSPACE: &str = include_str!("../locks/workspace.yarn-1.lock");
const YARN_8_WORKSPACE: &str = include_str!("../locks/workspace.yarn-8.lock");

/// The packages of a build as `name version`.
fn packages(record: &Value) -> Vec<String> {
    let listed = record["packages"].as_array().unwrap().iter();
    listed.map(|package| format!("{} {}", text(&package["name"]), text(&package["version"]))).collect()
}

fn installs(record: &Value) -> bool {
    text(&record["log"]).contains(": installing")
}

fn session(api: &Api, harness: &str, project: &str, script: &str) -> String {
    said(&api.ask(&json!({"input": script, "metadata": {"harness_id": harness, "environment": project}})).ok())
}

/// Builds, which must fail, and returns what the build says of it.
fn fails(api: &Api, project: &str) -> String {
    let record = api.ended_build(project, api.begin_build(project));
    assert_eq!(record["status"], "failed", "{record:#}");
    format!("{}\n{}", record["error"], text(&record["log"]))
}

#[test]
fn each_lock_installs_what_it_names_and_a_stale_one_is_refused_by_name() {
    needs_root!();
    let server = toolchain::networked(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    for (name, lock, content) in [
        ("pnpm9", "pnpm-lock.yaml", PNPM_9),
        ("pnpm6", "pnpm-lock.yaml", PNPM_6),
        ("yarn1", "yarn.lock", YARN_1),
        ("yarn6", "yarn.lock", YARN_6),
        ("yarn8", "yarn.lock", YARN_8),
    ] {
        let manifest = |version: &str| {
            format!(r#"{{"name":"p","version":"1.0.0","dependencies":{{"ms":"{version}","is-odd":"3.0.1"}}}}"#)
        };
        let files = [("package.json", manifest("2.1.3")), (lock, content.to_owned()), ("run.js", "1".to_owned())];
        let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
        let project = api.environment(name, &files);
        if name == "yarn8" {
            api.put(&project, ".pnp.cjs", "throw new Error('sessions have no such thing');\n");
        }
        let built = api.build(&project);
        assert_eq!(
            packages(&built),
            ["is-number 6.0.0", "is-odd 3.0.1", "ms 2.1.3"],
            "{name}: {}",
            text(&built["log"])
        );
        let script = format!(
            "node -e 'console.log(require(\"is-odd\")(3), require(\"ms\")(\"2s\"))'; cd /env/{name}; \
             node -p 'require.resolve(\"ms\")'; find . -xtype l; ls -d .pnp* 2>/dev/null"
        );
        let output = session(&api, &harness, &project, &script);
        let place = output.strip_prefix("true 2000\n").unwrap_or_else(|| panic!("{name}: {output}"));
        assert!(place.starts_with(&format!("/env/{name}/node_modules/")) && place.lines().count() == 1, "{output}");
        api.put(&project, "run.js", "2");
        let again = api.build(&project);
        assert!(!installs(&again), "{name}: {}", text(&again["log"]));
        api.put(&project, "package.json", &manifest("2.1.2"));
        let failure = fails(&api, &project);
        assert!(failure.lines().next().unwrap().contains(lock), "{name}: {failure}");
    }
}

#[test]
fn packages_of_a_workspace_find_each_other_and_their_own_dependencies() {
    needs_root!();
    let server = toolchain::networked(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    for (name, lock, content, range) in [
        ("npm", "package-lock.json", NPM_WORKSPACE, "1.0.0"),
        ("pnpm", "pnpm-lock.yaml", PNPM_WORKSPACE, "workspace:*"),
        ("classic", "yarn.lock", YARN_1_WORKSPACE, "1.0.0"),
        ("berry", "yarn.lock", YARN_8_WORKSPACE, "1.0.0"),
    ] {
        let member =
            format!(r#"{{"name":"a","version":"1.0.0","bin":"cli.js","dependencies":{{"b":"{range}","ms":"2.0.0"}}}}"#);
        let project = api.environment(
            name,
            &[
                (
                    "package.json",
                    r#"{"name":"root","version":"1.0.0","private":true,"workspaces":["packages/*"],"dependencies":{"ms":"2.1.3"}}"#,
                ),
                (lock, content),
                ("packages/a/package.json", &member),
                ("packages/a/cli.js", "#!/usr/bin/env node\nrequire('./index.js');\n"),
                ("packages/a/index.js", "console.log(require('b'), require('ms/package.json').version);\n"),
                ("packages/b/package.json", r#"{"name":"b","version":"1.0.0"}"#),
                ("packages/b/index.js", "module.exports = 'one';\n"),
            ],
        );
        if name == "pnpm" {
            api.put(&project, "pnpm-workspace.yaml", "packages:\n  - packages/*\n");
        }
        let built = api.build(&project);
        assert_eq!(packages(&built), ["ms 2.0.0", "ms 2.1.3"], "{name}: {}", text(&built["log"]));
        // pnpm alone links no packages of the workspace into a root that does not depend on them.
        let run = if name == "pnpm" { "node packages/a/cli.js" } else { "a; node -e 'require(\"a\")'" };
        let script = format!("cd /env/{name} && {run}; node -p 'require(\"ms/package.json\").version'");
        let ran = |api: &Api| session(api, &harness, &project, &script);
        let expected =
            |word: &str| format!("{}2.1.3\n", format!("{word} 2.0.0\n").repeat(if name == "pnpm" { 1 } else { 2 }));
        let first = ran(&api);
        // A package without `main` is its index.js; requiring it twice runs it once a process.
        assert_eq!(first, expected("one"), "{name}");
        api.put(&project, "packages/b/index.js", "module.exports = 'two';\n");
        let again = api.build(&project);
        assert!(!installs(&again), "{name}: {}", text(&again["log"]));
        assert_eq!(ran(&api), expected("two"), "{name}");
        api.put(&project, "packages/a/package.json", &member.replace("2.0.0", "2.1.2"));
        let failure = fails(&api, &project);
        assert!(failure.lines().next().unwrap().contains(lock), "{name}: {failure}");
    }
}

#[test]
fn a_lock_from_another_platform_or_without_its_tool_is_refused_before_anything_is_installed() {
    needs_root!();
    let server = crate::server::TestServer::start(&[("sessions.network", "disabled")]);
    let api = Api::of(&server);
    let lock = r#"{"lockfileVersion":3,"packages":{"":{"dependencies":{"rollup":"4.0.0"}},
        "node_modules/rollup":{"version":"4.0.0","optionalDependencies":{"@rollup/rollup-darwin-arm64":"4.0.0",
        "@rollup/rollup-linux-x64-gnu":"4.0.0","@rollup/rollup-linux-arm64-gnu":"4.0.0"}},
        "node_modules/@rollup/rollup-darwin-arm64":{"version":"4.0.0","optional":true,"os":["darwin"]}}}"#;
    let manifest = r#"{"dependencies":{"rollup":"4.0.0"}}"#;
    let project = api.environment("vite", &[("package.json", manifest), ("package-lock.json", lock)]);
    let failure = fails(&api, &project);
    assert!(failure.contains("package-lock.json") && failure.contains("`@rollup/rollup-linux-"), "{failure}");
    assert!(!failure.contains(": installing"), "{failure}");
    let project = api.environment("toolless", &[("package.json", "{}"), ("pnpm-lock.yaml", PNPM_9)]);
    let failure = fails(&api, &project);
    assert!(failure.contains("`pnpm-lock.yaml` needs pnpm, which this server does not have"), "{failure}");
}

/// An archive of a package that exports `value`, and its two hashes: SHA-1 in hexadecimal, SHA-512 in base64.
fn archive(value: &str) -> (Vec<u8>, String, String) {
    let script = r#"
import base64, gzip, hashlib, io, sys, tarfile
made = io.BytesIO()
with tarfile.open(fileobj=made, mode="w") as archive:
    package = '{"name":"@nobody-has/kept","version":"1.0.0","main":"index.js"}'
    for path, text in {"package/package.json": package, "package/index.js": f"module.exports = {sys.argv[1]!r}\n"}.items():
        member = tarfile.TarInfo(path)
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text.encode()))
packed = gzip.compress(made.getvalue(), mtime=0)
hashes = hashlib.sha1(packed).hexdigest(), base64.b64encode(hashlib.sha512(packed).digest()).decode()
sys.stderr.write(" ".join(hashes))
sys.stdout.buffer.write(packed)
"#;
    let made = Command::new("/usr/bin/python3").args(["-c", script, value]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let hashes = String::from_utf8(made.stderr).unwrap();
    let (short, long) = hashes.split_once(' ').unwrap();
    (made.stdout, short.to_owned(), long.to_owned())
}

#[test]
fn archives_of_the_source_are_taken_as_they_are_now() {
    needs_root!();
    let server = toolchain::networked(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    let put = |project: &str, path: &str, content: &[u8]| {
        api.send("PUT", &format!("/v1/environments/{project}/files/{path}"), &[], content).ok();
    };
    let kept = "node -p 'require(\"@nobody-has/kept\")'";
    for (name, manager) in [("n", "npm"), ("p", "pnpm@10.0.0"), ("y", "yarn@1.22.22"), ("b", "yarn@4.5.0")] {
        let manifest = format!(
            r#"{{"name":"a","version":"1.0.0","packageManager":"{manager}","dependencies":{{"@nobody-has/kept":"file:vendor/kept.tgz"}}}}"#
        );
        let project = api.environment(name, &[("package.json", manifest.as_str())]);
        for value in ["one", "two"] {
            put(&project, "vendor/kept.tgz", &archive(value).0);
            api.build(&project);
            assert_eq!(session(&api, &harness, &project, kept), format!("{value}\n"), "{manager}");
        }
    }
    // A mirror in the source, which is the only place that has the package.
    let (content, short, long) = archive("three");
    let lock = format!(
        "# yarn lockfile v1\n\n\n\"@nobody-has/kept@1.0.0\":\n  version \"1.0.0\"\n  \
         resolved \"https://one.example/@nobody-has/kept/-/kept-1.0.0.tgz#{short}\"\n  integrity sha512-{long}\n"
    );
    let manifest = r#"{"name":"a","version":"1.0.0","dependencies":{"@nobody-has/kept":"1.0.0"}}"#;
    let settings = "yarn-offline-mirror \"./kept\"\n";
    let files = [("package.json", manifest), ("yarn.lock", lock.as_str()), (".yarnrc", settings)];
    let project = api.environment("mirrored", &files);
    put(&project, "kept/@nobody-has-kept-1.0.0.tgz", &content);
    api.build(&project);
    assert_eq!(session(&api, &harness, &project, kept), "three\n");
}
