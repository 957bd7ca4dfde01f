//! Plans of Node packages: which manager installs, what it runs and what its key reads.

use super::super::tests::{Files, files, plan_with, settings, toolchain};
use super::super::{InstallPlan, NODE_MODULES, Step, StepFiles};
use crate::toolchain::{NodeTool, NodeTools, Toolchain};

const LOCK_3: &str = r#"{"lockfileVersion":3,"packages":{"":{}}}"#;
const PNPM_9: &str = "lockfileVersion: '9.0'\nimporters:\n  .: {}\n";
const BERRY_8: &str = "__metadata:\n  version: 8\n";
const CLASSIC: &str = "# yarn lockfile v1\n\n\nms@2.1.3:\n  version \"2.1.3\"\n  integrity sha512-x\n";

fn tools() -> Toolchain {
    let tool = |version: &str| NodeTool { program: format!("/opt/stead/{version}"), version: version.to_owned() };
    let node_tools = NodeTools {
        pnpm: vec![tool("10.34.9"), tool("8.15.9")],
        yarn: vec![tool("1.22.22")],
        yarn_berry: vec![tool("4.18.1"), tool("4.13.0"), tool("3.8.7")],
    };
    Toolchain { node_tools, ..toolchain() }
}

fn planned(source: &Files) -> InstallPlan {
    plan_with(source, &tools(), &settings()).unwrap()
}

fn node_step(source: &Files) -> Step {
    let mut plan = planned(source);
    assert_eq!(plan.steps.len(), 1);
    plan.steps.remove(0)
}

fn refused(list: &[(&str, &str)], tools: &Toolchain) -> String {
    plan_with(&files(list), tools, &settings()).unwrap_err().failure().message
}

fn names(step: &Step) -> Vec<&str> {
    match &step.files {
        StepFiles::Only(files) => files.iter().map(|file| file.path.as_str()).collect(),
        StepFiles::Whole => vec!["*"],
    }
}

#[test]
fn the_named_manager_or_the_first_lock_installs_and_others_are_named() {
    let all = [("package-lock.json", LOCK_3), ("pnpm-lock.yaml", PNPM_9), ("yarn.lock", CLASSIC)];
    for (package, locks, step, ignored) in [
        ("{}", &all[..], "npm ci (package-lock.json)", "pnpm-lock.yaml is not used: package-lock.json comes first"),
        ("{}", &all[1..], "pnpm install (pnpm-lock.yaml)", "yarn.lock is not used: pnpm-lock.yaml comes first"),
        ("{}", &all[2..], "yarn install (yarn.lock)", ""),
        (
            r#"{"packageManager":"yarn@1.22.0"}"#,
            &all[..],
            "yarn install (yarn.lock)",
            "package-lock.json is not used: package.json names yarn",
        ),
        (r#"{"packageManager":"pnpm@9.0.0"}"#, &all[2..], "pnpm install (package.json)", "package.json names pnpm"),
        (r#"{"packageManager":"vlt@1"}"#, &all[1..2], "pnpm install (pnpm-lock.yaml)", ""),
    ] {
        let mut source = files(locks);
        source.insert("package.json".to_owned(), package.as_bytes().to_vec());
        let plan = planned(&source);
        assert_eq!(plan.steps[0].name, step, "{package}");
        let said = plan.log.join("\n");
        assert!(said.contains(ignored) && said.contains("is not used") != ignored.is_empty(), "{said}");
        assert_eq!(plan.steps[0].pinned, step.contains("lock"));
    }
}

#[test]
fn a_lock_without_its_tool_fails_by_name() {
    for (lock, text, expected) in [
        ("pnpm-lock.yaml", PNPM_9, "`pnpm-lock.yaml` needs pnpm, which this server does not have"),
        ("yarn.lock", CLASSIC, "`yarn.lock` needs Yarn 1, which this server does not have"),
        ("yarn.lock", BERRY_8, "`yarn.lock` needs Yarn 4.13, which this server does not have"),
    ] {
        assert_eq!(refused(&[("package.json", "{}"), (lock, text)], &toolchain()), expected);
    }
    let bun = refused(&[("package.json", "{}"), ("bun.lock", "{}")], &tools());
    let way = "which is not supported: remove it, or let `packageManager` in package.json name npm, pnpm or yarn";
    assert_eq!(bun, format!("`bun.lock` asks for Bun, {way}"));
    let bun = refused(&[("package.json", r#"{"packageManager":"bun@1.2.0"}"#), ("bun.lock", "{}")], &tools());
    assert!(
        bun.starts_with("`package.json` asks for Bun, which is not supported: let `packageManager` in it"),
        "{bun}"
    );
    assert_eq!(planned(&files(&[("package.json", r#"{"packageManager":"npm"}"#), ("bun.lock", "{}")])).steps.len(), 1);
    let old = refused(&[("package.json", "{}"), ("pnpm-lock.yaml", "lockfileVersion: 5.4\n")], &tools());
    assert_eq!(old, "`pnpm-lock.yaml` needs pnpm 7, which this server does not have");
    let broken = refused(&[("package.json", "{}"), ("pnpm-lock.yaml", "a: [\n")], &tools());
    assert!(broken.starts_with("`pnpm-lock.yaml` cannot be used: the file is not valid YAML"), "{broken}");
}

#[test]
fn installs_are_frozen_and_by_a_tool_that_writes_the_lock_s_format() {
    for (lock, text, program, flag) in [
        ("pnpm-lock.yaml", PNPM_9, "10.34.9", "--frozen-lockfile"),
        ("pnpm-lock.yaml", "lockfileVersion: '6.0'\n", "8.15.9", "--frozen-lockfile"),
        ("yarn.lock", CLASSIC, "1.22.22", "--frozen-lockfile"),
        ("yarn.lock", BERRY_8, "4.13.0", "--immutable"),
        ("yarn.lock", "__metadata:\n  version: 6\n", "3.8.7", "--immutable"),
    ] {
        let step = node_step(&files(&[("package.json", "{}"), (lock, text), ("index.js", "1")]));
        let argv = &step.commands[0].argv;
        assert_eq!((argv[0].as_str(), argv[1].as_str()), ("/usr/bin/node", format!("/opt/stead/{program}").as_str()));
        assert!(argv.iter().any(|argument| argument == flag), "{argv:?}");
        assert_eq!((step.keep.as_str(), names(&step)), (NODE_MODULES, vec!["package.json", lock]));
    }
    let source = files(&[("package.json", "{}"), ("yarn.lock", BERRY_8), (".yarnrc.yml", "nodeLinker: pnp\n")]);
    let plan = planned(&source);
    assert!(plan.log.iter().any(|line| line == ".yarnrc.yml: nodeLinker is pnp; node-modules is used instead"));
    assert_eq!(plan.steps[0].commands[0].env["YARN_NODE_LINKER"], "node-modules");
    let mut source = source;
    source.insert(".yarn/install-state.gz".to_owned(), b"1".to_vec());
    assert_eq!(node_step(&source).key, plan.steps[0].key);
    source.insert(".pnp.cjs".to_owned(), b"1".to_vec());
    let step = node_step(&source);
    assert_eq!((names(&step), step.keep.as_str()), (vec![".pnp.cjs", ".yarnrc.yml", "package.json", "yarn.lock"], ""));
}

#[test]
fn classic_yarn_is_sent_to_the_operator_s_registry_unless_the_project_names_its_own() {
    let lock = CLASSIC.replace("  integrity", "  resolved \"https://one.example/ms/-/ms-2.1.3.tgz#abc\"\n  integrity");
    let mut source = files(&[("package.json", "{}"), ("yarn.lock", lock.as_str())]);
    let mut settings = settings();
    settings.npm_registry = Some("https://mirror.example/".to_owned());
    let step = plan_with(&source, &tools(), &settings).unwrap().steps.remove(0);
    let (path, bytes) = &step.replaced[0];
    assert_eq!(path.as_str(), "yarn.lock");
    assert!(String::from_utf8_lossy(bytes).contains("  resolved \"https://mirror.example/ms/-/ms-2.1.3.tgz#abc\"\n"));
    source.insert(".npmrc".to_owned(), b"registry=https://own.example\n".to_vec());
    assert!(plan_with(&source, &tools(), &settings).unwrap().steps[0].replaced.is_empty());
}

/// A workspace of two packages, one of which has a program.
fn workspace(lock: &str, text: &str) -> Files {
    files(&[
        ("package.json", r#"{"name":"w","workspaces":["packages/*"]}"#),
        (lock, text),
        ("packages/a/package.json", r#"{"name":"a","bin":"./cli.js","dependencies":{"b":"*"}}"#),
        ("packages/a/cli.js", "1"),
        ("packages/b/package.json", r#"{"name":"b"}"#),
        ("packages/b/index.js", "1"),
        ("examples/x/package.json", r#"{"scripts":{"postinstall":"x"}}"#),
    ])
}

#[test]
fn a_workspace_is_keyed_by_manifests_and_programs_alone_unless_a_member_has_scripts() {
    let npm = r#"{"lockfileVersion":3,"packages":{"packages/a":{},"packages/b":{},"node_modules/a":{"link":true}}}"#;
    let pnpm = "lockfileVersion: '9.0'\nimporters:\n  .: {}\n  packages/a: {}\n  packages/b: {}\n";
    let berry = "__metadata:\n  version: 8\n\"a@workspace:packages/a\":\n  resolution: \"a@workspace:packages/a\"\n\
        \"b@workspace:packages/b\":\n  resolution: \"b@workspace:packages/b\"\n";
    for (lock, text) in [("package-lock.json", npm), ("pnpm-lock.yaml", pnpm), ("yarn.lock", berry)] {
        let mut source = workspace(lock, text);
        let before = node_step(&source);
        let mut expected = vec![
            "examples/x/package.json",
            "package.json",
            "packages/a/cli.js",
            "packages/a/package.json",
            "packages/b/package.json",
            lock,
        ];
        expected.sort_unstable();
        // Members may have a node_modules of their own, so all that is written is kept.
        assert_eq!((names(&before), before.keep.as_str()), (expected, ""), "{lock}");
        source.insert("packages/b/index.js".into(), b"2".to_vec());
        assert_eq!(node_step(&source).key, before.key, "{lock}");
        for (path, text) in [("packages/a/cli.js", "2"), ("packages/c/package.json", "{}"), (".npmrc", "a=b")] {
            let mut edited = source.clone();
            edited.insert(path.to_owned(), text.as_bytes().to_vec());
            assert_ne!(node_step(&edited).key, before.key, "{lock}: {path}");
        }
        for (path, text) in [
            ("packages/b/package.json", r#"{"name":"b","scripts":{"prepare":"tsc"}}"#),
            ("packages/b/package.json", r#"{"name":"b","dependencies":{"c":"file:../../c"}}"#),
            ("packages/b/binding.gyp", "{}"),
        ] {
            let mut edited = source.clone();
            edited.insert(path.to_owned(), text.as_bytes().to_vec());
            assert_eq!(node_step(&edited).files, StepFiles::Whole, "{lock}: {path} {text}");
        }
    }
    // Without a list of members, any package of the source may be one.
    assert_eq!(node_step(&workspace("yarn.lock", CLASSIC)).files, StepFiles::Whole);
}

#[test]
fn a_classic_lock_that_lacks_what_a_member_wants_is_refused() {
    let mut source = workspace("yarn.lock", CLASSIC);
    let put = |source: &mut Files, range: &str| {
        let text = format!(r#"{{"name":"b","dependencies":{{"ms":"{range}","a":"*"}}}}"#);
        source.insert("packages/b/package.json".to_owned(), text.into_bytes());
    };
    put(&mut source, "2.1.3");
    planned(&source);
    put(&mut source, "^2.0.0");
    let said = plan_with(&source, &tools(), &settings()).unwrap_err().failure().message;
    let expected = "`yarn.lock` cannot be used: it does not name ms@^2.0.0, which packages/b/package.json wants";
    assert!(said.starts_with(expected), "{said}");
    let root = r#"{"workspaces":["packages/*"],"resolutions":{"ms":"2.1.3"}}"#;
    source.insert("package.json".to_owned(), root.as_bytes().to_vec());
    planned(&source);
}

#[test]
fn code_that_an_install_runs_is_in_its_key() {
    let release = ".yarn/releases/yarn-4.5.0.cjs";
    let source = files(&[
        ("package.json", "{}"),
        ("yarn.lock", BERRY_8),
        (".yarnrc.yml", "nodeLinker: node-modules\nyarnPath: .yarn/releases/yarn-4.5.0.cjs\n"),
        (release, "code"),
        ("index.js", "1"),
    ]);
    assert_eq!(names(&node_step(&source)), [release, ".yarnrc.yml", "package.json", "yarn.lock"]);
    for (lock, text, path, content) in [
        ("yarn.lock", BERRY_8, ".yarnrc.yml", "plugins:\n  - path: .yarn/plugins/p.cjs\n"),
        ("yarn.lock", CLASSIC, ".yarnrc", "yarn-path \"tools/yarn.js\"\n"),
        ("pnpm-lock.yaml", PNPM_9, ".pnpmfile.cjs", "module.exports = {}"),
        ("pnpm-lock.yaml", PNPM_9, ".npmrc", "pnpmfile=hooks.cjs\n"),
        ("pnpm-lock.yaml", PNPM_9, "pnpm-workspace.yaml", "pnpmfile: hooks.cjs\n"),
        ("pnpm-lock.yaml", PNPM_9, "pnpm-workspace.yaml", "injectWorkspacePackages: true\n"),
        ("pnpm-lock.yaml", PNPM_9, ".npmrc", "inject-workspace-packages=true\n"),
        ("package-lock.json", LOCK_3, ".npmrc", "node-options=--require ./x.js\n"),
    ] {
        let step = node_step(&files(&[("package.json", "{}"), (lock, text), (path, content)]));
        assert_eq!(step.files, StepFiles::Whole, "{path}: {content}");
    }
    let patched = files(&[
        ("package.json", r#"{"pnpm":{"patchedDependencies":{"ms":"patches/ms.patch"}}}"#),
        ("pnpm-lock.yaml", PNPM_9),
        ("patches/ms.patch", "diff"),
        ("patches/other.patch", "diff"),
    ]);
    assert_eq!(names(&node_step(&patched)), ["package.json", "patches/ms.patch", "pnpm-lock.yaml"]);
}

#[test]
fn archives_and_variables_that_yarn_takes_from_the_source_are_in_the_key() {
    let mirror = "yarn-offline-mirror \"./kept\"\n";
    let injected = "injectEnvironmentFiles: ['.env.yarn?', conf/env]\n";
    for (lock, settings, text, path, global) in [
        (CLASSIC, ".yarnrc", mirror, "kept/ms-2.1.3.tgz", None),
        (CLASSIC, ".npmrc", "yarn-offline-mirror=./kept\n", "kept/ms-2.1.3.tgz", None),
        (BERRY_8, ".yarnrc.yml", "cacheFolder: ./kept\n", "kept/ms.zip", Some(false)),
        (BERRY_8, ".yarnrc.yml", "nodeLinker: node-modules\n", ".yarn/cache/ms.zip", Some(false)),
        (BERRY_8, ".yarnrc.yml", "nodeLinker: node-modules\n", ".env.yarn", Some(true)),
        (BERRY_8, ".yarnrc.yml", injected, "conf/env", Some(true)),
    ] {
        let list = [("package.json", "{}"), ("yarn.lock", lock), (settings, text), (path, "1"), ("kept.js", "1")];
        let mut source = files(&list);
        let before = node_step(&source);
        let mut expected = vec!["package.json", "yarn.lock", settings, path];
        expected.sort_unstable();
        assert_eq!(names(&before), expected);
        let is_global = before.commands[0].env.contains_key("YARN_ENABLE_GLOBAL_CACHE");
        assert_eq!(global.map(|_| is_global), global, "{text}");
        source.insert(path.to_owned(), b"2".to_vec());
        assert_ne!(node_step(&source).key, before.key, "{text}");
    }
}

#[test]
fn a_lock_from_another_platform_is_refused_by_the_package_it_lacks() {
    let lock = r#"{"lockfileVersion":3,"packages":{"node_modules/rollup":{"version":"4.0.0","optionalDependencies":
        {"@rollup/rollup-darwin-arm64":"4.0.0","@rollup/rollup-linux-x64-gnu":"4.0.0"}},
        "node_modules/@rollup/rollup-darwin-arm64":{"version":"4.0.0","optional":true}}}"#;
    let source = [("package.json", "{}"), ("package-lock.json", lock)];
    let said = refused(&source, &tools());
    let expected =
        "`package-lock.json` cannot be used: it was written on another platform: `@rollup/rollup-linux-x64-gnu`";
    assert!(said.starts_with(expected), "{said}");
    let mut source = files(&source);
    source.insert(".npmrc".to_owned(), b"omit[]=optional\n".to_vec());
    assert_eq!(node_step(&source).name, "npm ci (package-lock.json)");
}
