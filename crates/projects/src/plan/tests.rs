//! Plans: which keys an edit changes, and what is refused.

use std::collections::BTreeMap;

use stead_domain::network::BuildNetworkPolicy;
use stead_domain::source::EntryKind;
use stead_domain::{BlobId, Slug, SourcePath, Timestamp};

use super::*;
use crate::toolchain::{Node, PYTHON, Python, Uv};

/// A source in memory: path to bytes.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

pub(super) fn files(list: &[(&str, &str)]) -> Files {
    list.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

pub(super) fn toolchain() -> Toolchain {
    Toolchain {
        architecture: "x86_64".into(),
        libc: "glibc 2.36".into(),
        pythons: vec![Python { program: PYTHON.into(), version: "3.11.2".into(), pip: Some("23.0.1".into()) }],
        node: Some(Node { version: "20.20.2".into(), npm: Some("10.8.2".into()) }),
        uv: None,
        apt: None,
        node_tools: crate::toolchain::NodeTools::default(),
    }
}

pub(super) fn settings() -> BuildSettings {
    BuildSettings::new(Slug::from_name("Studio").unwrap())
}

pub(super) fn plan_with(
    files: &Files,
    toolchain: &Toolchain,
    settings: &BuildSettings,
) -> Result<InstallPlan, PlanError> {
    let entries: Vec<SourceEntry> = files
        .iter()
        .map(|(path, bytes)| {
            let blob = BlobId::from_bytes(*blake3::hash(bytes).as_bytes());
            let kind = EntryKind::File { executable: false, size: bytes.len() as u64, blob };
            SourceEntry { path: SourcePath::parse(path).unwrap(), kind, modified_at: Timestamp::from_micros(0) }
        })
        .collect();
    plan(&entries, &|entry| Ok(files[entry.path.as_str()].clone()), toolchain, settings)
}

pub(super) fn planned(files: &Files) -> InstallPlan {
    plan_with(files, &toolchain(), &settings()).unwrap()
}

/// What the tests below edit: every manifest, in its simple form.
pub(super) fn project() -> Files {
    files(&[
        ("main.py", "print(1)"),
        ("requirements.txt", "-r requirements/base.txt\n-c constraints.txt\n-f vendor\n"),
        ("requirements/base.txt", "demo-pkg==1.0\n"),
        ("constraints.txt", "demo-pkg<2\n"),
        ("vendor/demo.whl", "wheel"),
        ("pyproject.toml", "[project]\nname = 'a'\ndependencies = ['b>=1']\n"),
        ("package.json", r#"{"name":"a","dependencies":{"c":"^1"}}"#),
        ("package-lock.json", r#"{"lockfileVersion":3,"packages":{"node_modules/c":{"version":"1.0.0"}}}"#),
        ("setup.sh", "echo hi\n"),
    ])
}

/// The five steps of [`project`] by a letter each: requirements, dependencies, itself, node, setup.
const LETTERS: [char; 5] = ['r', 'd', 'p', 'n', 's'];

fn changed(before: &InstallPlan, after: &InstallPlan) -> String {
    assert_eq!((before.steps.len(), after.steps.len()), (5, 5));
    let pairs = before.steps.iter().zip(&after.steps).zip(LETTERS);
    pairs.filter(|((old, new), _)| old.key != new.key).map(|(_, letter)| letter).collect()
}

#[test]
fn a_key_changes_exactly_when_something_it_depends_on_does() {
    let before = planned(&project());
    let names: Vec<_> = before.steps.iter().map(|step| (step.keep.as_str(), step.lower.as_slice())).collect();
    assert_eq!(
        names,
        [(".venv", &[][..]), (".venv", &[0]), (".venv", &[0, 1]), ("node_modules", &[]), ("", &[0, 1, 2, 3])]
    );
    assert_eq!(changed(&before, &planned(&project())), "");
    for (path, bytes, expected) in [
        ("main.py", "print(2)", "ps"),
        ("new/file.txt", "x", "ps"),
        ("vendor/other.whl", "y", "rdps"),
        ("requirements/base.txt", "demo-pkg==1.0 \n", "rdps"),
        ("constraints.txt", "demo-pkg<3\n", "rdps"),
        ("pyproject.toml", "[project]\nname = 'a'\ndependencies = ['b>=2']\n", "dps"),
        ("pyproject.toml", "[project]\nname = 'a'\ndependencies = ['b>=1']\n[tool.x]\ny = 1\n", "ps"),
        ("package.json", r#"{"name":"a","dependencies":{"c":"^1"},"x":1}"#, "pns"),
        ("package-lock.json", r#"{"lockfileVersion":3,"packages":{}}"#, "pns"),
        (".npmrc", "legacy-peer-deps=true\n", "pns"),
        ("setup.sh", "echo ho\n", "ps"),
    ] {
        let mut edited = project();
        edited.insert(path.to_owned(), bytes.as_bytes().to_vec());
        assert_eq!(changed(&before, &planned(&edited)), expected, "{path}: {bytes}");
    }
}

#[test]
fn a_key_changes_with_tools_settings_and_mount() {
    let before = planned(&project());
    let with = |edit: &dyn Fn(&mut Toolchain, &mut BuildSettings)| {
        let (mut toolchain, mut settings) = (toolchain(), settings());
        edit(&mut toolchain, &mut settings);
        changed(&before, &plan_with(&project(), &toolchain, &settings).unwrap())
    };
    type Edit<'a> = &'a dyn Fn(&mut Toolchain, &mut BuildSettings);
    let edits: [(&str, Edit<'_>, &str); 8] = [
        ("mount", &|_, settings| settings.slug = Slug::from_name("other").unwrap(), "rdpns"),
        ("network", &|_, settings| settings.network = BuildNetworkPolicy::Disabled, "rdpns"),
        ("index", &|_, settings| settings.python_index = Some("https://i/".into()), "rdpns"),
        ("registry", &|_, settings| settings.npm_registry = Some("https://r/".into()), "rdpns"),
        ("libc", &|tools, _| tools.libc = "glibc 2.40".into(), "rdpns"),
        ("uv", &|tools, _| tools.uv = Some(Uv { program: "/opt/stead/uv/bin/uv".into(), version: "1".into() }), "rdps"),
        ("npm", &|tools, _| tools.node = Some(Node { version: "20.20.2".into(), npm: Some("11.0.0".into()) }), "ns"),
        ("patch", &|tools, _| tools.node = Some(Node { version: "20.99.0".into(), npm: Some("10.8.2".into()) }), ""),
    ];
    for (name, edit, expected) in edits {
        assert_eq!(with(edit), expected, "{name}");
    }
}

#[test]
fn editing_a_script_changes_no_key_of_a_project_with_plain_manifests() {
    let mut project = project();
    project.remove("setup.sh");
    project.remove("pyproject.toml");
    let before: Vec<_> = planned(&project).steps.iter().map(|step| step.key).collect();
    project.insert("main.py".into(), b"print(3)".to_vec());
    assert_eq!(planned(&project).steps.iter().map(|step| step.key).collect::<Vec<_>>(), before);
    let step = &planned(&project).steps[0];
    assert!(step.key_inputs.iter().any(|line| line.starts_with("requirements/base.txt ")), "{:?}", step.key_inputs);
    assert!(step.pinned && matches!(&step.files, StepFiles::Only(files) if files.len() == 4));
}

#[test]
fn whatever_reads_the_source_is_keyed_by_it() {
    for (list, keep) in [
        (&[("requirements.txt", "-e .\n")][..], ""),
        (&[("requirements.txt", ".\n")], VENV),
        (&[("requirements.txt", "./lib\n")], VENV),
        (&[("requirements.txt", "--frobnicate\n")], VENV),
        (&[("requirements.txt", "-f .\n")], VENV),
        (&[("pyproject.toml", "[project]\nname = 'a'\ndynamic = ['dependencies']\n")], VENV),
        (&[("pyproject.toml", "[project]\nname = 'a'\ndependencies = ['--index-url=x']\n")], VENV),
        (&[("pyproject.toml", "[build-system]\nrequires = []\n")], VENV),
        (&[("package.json", r#"{"dependencies":{"d":"file:vendor/d"}}"#)], ""),
        (&[("package.json", r#"{"scripts":{"postinstall":"x"}}"#)], ""),
        (&[("package.json", "{}"), ("binding.gyp", "{}")], ""),
        (&[("setup.sh", "true\n")], ""),
    ] {
        let mut source = files(list);
        let before = planned(&source);
        source.insert("other.txt".into(), b"x".to_vec());
        let after = planned(&source);
        assert_eq!((before.steps.len(), before.steps[0].keep.as_str()), (1, keep), "{list:?}");
        assert_eq!(before.steps[0].files, StepFiles::Whole, "{list:?}");
        assert_ne!(before.steps[0].key, after.steps[0].key, "{list:?}");
    }
}

#[test]
fn a_project_that_requirements_install_is_not_installed_twice() {
    let pyproject = ("pyproject.toml", "[project]\nname = 'a'\ndependencies = []\n");
    for line in ["-e .", ".", "./", ".[dev]", "-e ./.[x]"] {
        let plan = planned(&files(&[("requirements.txt", line), pyproject]));
        assert_eq!(plan.steps.len(), 1, "{line}");
        assert!(plan.log.iter().any(|line| line.contains("not installed once more")), "{:?}", plan.log);
    }
    assert_eq!(planned(&files(&[("requirements.txt", "-e ./lib"), pyproject])).steps.len(), 3);
    assert_eq!(planned(&files(&[("pyproject.toml", "[tool.black]\n")])).steps.len(), 0);
}

#[test]
fn the_packages_of_others_are_a_layer_below_the_project_s_own() {
    let mut source = files(&[
        ("requirements.txt", "a==1.0  # why\n-e .\n-r more.txt\n"),
        ("more.txt", "b==2.0\n"),
        ("pyproject.toml", "[project]\nname = 'own'\ndependencies = ['c>=1']\n"),
        ("own.py", "x = 1"),
    ]);
    let before = planned(&source);
    let steps: Vec<_> = before.steps.iter().map(|step| (step.keep.as_str(), step.lower.as_slice())).collect();
    assert_eq!(steps, [(VENV, &[][..]), ("", &[0])]);
    assert_eq!(before.steps[0].replaced[0].1, b"a==1.0\n-r more.txt\nc>=1\n");
    assert!(matches!(&before.steps[0].files, StepFiles::Only(files) if files.len() == 2));
    for (path, bytes, expected) in [("own.py", "x = 2", [false, true]), ("more.txt", "b==3.0\n", [true, true])] {
        source.insert(path.to_owned(), bytes.as_bytes().to_vec());
        let after = planned(&source);
        let changed = [0, 1].map(|index: usize| after.steps[index].key != before.steps[index].key);
        assert_eq!(changed, expected, "{path}");
    }
    let mut fast = toolchain();
    fast.uv = Some(Uv { program: "/opt/stead/uv/bin/uv".into(), version: "1".into() });
    let programs: Vec<_> = plan_with(&source, &fast, &settings())
        .unwrap()
        .steps
        .iter()
        .flat_map(|step| &step.commands)
        .filter(|command| command.argv.iter().any(|argument| argument == "install"))
        .map(|command| command.argv[0].clone())
        .collect();
    assert_eq!(programs, ["/opt/stead/uv/bin/uv", "/env/studio/.venv/bin/python"]);
    // An include that needs the source itself leaves nothing to put first.
    source.insert("more.txt".to_owned(), b"./lib\n".to_vec());
    assert_eq!(planned(&source).steps.len(), 1);
}

#[test]
fn one_hash_anywhere_makes_hashes_a_must_for_whatever_installs() {
    let mut fast = toolchain();
    fast.uv = Some(Uv { program: "/opt/stead/uv/bin/uv".into(), version: "1".into() });
    let hashed = "six>=1 --hash=sha256:00\n";
    for (list, must) in [
        (&[("requirements.txt", "six>=1 --hash=sha256:00\nidna\n")][..], true),
        (&[("requirements.txt", "idna\n-r more.txt\n"), ("more.txt", hashed)], true),
        (&[("requirements.txt", "idna\n-c more.txt\n"), ("more.txt", hashed)], true),
        (&[("requirements.txt", "--require-hashes\nidna\n")], true),
        // What a package of the source needs may not come first without a hash.
        (&[("requirements.txt", "idna\n.\n-r more.txt\n"), ("more.txt", hashed)], true),
        (&[("requirements.txt", "idna # --hash=sha256:00\n")], false),
    ] {
        for tools in [&fast, &toolchain()] {
            let plan = plan_with(&files(list), tools, &settings()).unwrap();
            assert_eq!(plan.steps.len(), 1, "{list:?}");
            let install =
                plan.steps[0].commands.iter().find(|command| command.argv.contains(&"-r".to_owned())).unwrap();
            assert_eq!(install.argv.contains(&"--require-hashes".to_owned()), must, "{list:?}: {:?}", install.argv);
        }
    }
}

#[test]
fn sources_of_uv_count_with_its_lock_alone() {
    let dynamic = "[project]\nname = 'a'\ndynamic = ['dependencies']\n[tool.uv.sources]\nb = { path = 'b' }\n";
    let plan = planned(&files(&[("pyproject.toml", dynamic)]));
    let install = plan.steps[0].commands.iter().find(|command| command.argv.contains(&".".to_owned())).unwrap();
    assert_eq!(install.env["UV_NO_SOURCES"], "1");
}

#[test]
fn faults_of_manifests_name_the_file_and_what_is_wrong_with_it() {
    let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain("a==1\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    for (path, bytes, expected) in [
        ("requirements.txt", utf16.clone(), "`requirements.txt` cannot be used: the file has the encoding UTF-16"),
        ("requirements.txt", b"a\nb\xe9\n".to_vec(), "line 2"),
        ("pyproject.toml", b"[project\n".to_vec(), "line 1"),
        ("package.json", b"{ not json".to_vec(), "`package.json` cannot be used"),
        ("setup.sh", utf16, "`setup.sh` cannot be used"),
    ] {
        let mut source = project();
        source.insert(path.to_owned(), bytes);
        let failure = plan_with(&source, &toolchain(), &settings()).unwrap_err().failure();
        assert!(failure.message.contains(expected) && failure.message.contains(path), "{}", failure.message);
        assert_eq!(failure.kind, stead_domain::build::BuildFailureKind::Manifest);
    }
    let mut included = project();
    included.insert("requirements/base.txt".into(), vec![0xff, 0xfe, b'a', 0]);
    let error = plan_with(&included, &toolchain(), &settings()).unwrap_err();
    assert!(error.to_string().contains("`requirements/base.txt`"), "{error}");
    let mut bare = toolchain();
    bare.pythons.clear();
    let error = plan_with(&project(), &bare, &settings()).unwrap_err();
    assert_eq!(error.to_string(), "`requirements.txt` needs Python 3, which this server does not have");
}

#[test]
fn setup_sees_normal_bytes_and_the_source_keeps_its_own() {
    let plan = planned(&files(&[("setup.sh", "\u{feff}echo a\r\necho b\r\n")]));
    let step = &plan.steps[0];
    assert_eq!(step.replaced[0].1, b"echo a\necho b\n");
    assert_eq!(step.commands[0].argv, ["/usr/bin/bash", "setup.sh"]);
    assert_eq!(step.commands[0].directory, "/env/studio");
    assert!(planned(&files(&[("setup.sh", "echo a\n")])).steps[0].replaced.is_empty());
}

#[test]
fn secrets_of_index_addresses_stay_out_of_logs() {
    let mut settings = settings();
    settings.python_index = Some("https://user:hunter2@host/simple".into());
    let plan = plan_with(&project(), &toolchain(), &settings).unwrap();
    let said = plan.steps.iter().flat_map(|step| &step.key_inputs).chain(&plan.log).cloned().collect::<String>();
    assert!(said.contains("python index ") && !said.contains("hunter2"), "{said}");
}

#[test]
fn placed_layers_keep_the_order_of_the_steps() {
    let plan = planned(&project());
    let ids: Vec<LayerId> =
        (0..5u128).map(|n| format!("layer_018f3c2a7b4c7d3e9f6a5b4c3d2e1f0{n:x}").parse().unwrap()).collect();
    let placed = plan.placed(&ids);
    let shape: Vec<_> = placed.iter().map(|group| (group.target.as_str(), group.layers.clone())).collect();
    assert_eq!(shape, [(VENV, vec![ids[2], ids[1], ids[0]]), (NODE_MODULES, vec![ids[3]]), ("", vec![ids[4]])]);
    assert_eq!(plan.mount_points(), [VENV, NODE_MODULES]);
    // A layer over another is good above that one alone.
    let over = |lowers: &[LayerId]| plan.steps[1].layer_key(lowers);
    assert_eq!((over(&ids[..1]) == over(&ids[..1]), over(&ids[..1]) == over(&ids[1..2])), (true, false));
    assert_eq!(plan.steps[0].layer_key(&[]), plan.steps[0].key);
}
