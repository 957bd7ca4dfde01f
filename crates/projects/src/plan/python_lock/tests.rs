//! Plans of Python locks: what they run, what their keys read, and what is refused.

use super::super::tests::{Files, files, plan_with, planned, settings, toolchain};
use super::super::{InstallPlan, StepFiles, VENV};
use crate::toolchain::Uv;

const UV_LOCK: &str = include_str!("../../../../bundles/tests/locks/uv.lock");
const UV_MANIFEST: &str = include_str!("../../../../bundles/tests/locks/uv.pyproject.toml");
const POETRY_LOCK: &str = include_str!("../../../../bundles/tests/locks/poetry.lock");
const POETRY_MANIFEST: &str = include_str!("../../../../bundles/tests/locks/poetry.pyproject.toml");
const PIPENV_LOCK: &str = include_str!("../../../../bundles/tests/locks/Pipfile.lock");
const PIPFILE: &str = include_str!("../../../../bundles/tests/locks/Pipfile");

fn uv_project() -> Files {
    files(&[
        ("pyproject.toml", UV_MANIFEST),
        ("uv.lock", UV_LOCK),
        ("libs/own/pyproject.toml", "[project]\nname = 'own'\nversion = '1'\ndependencies = ['packaging']\n"),
        ("src/ap/__init__.py", "x = 1\n"),
    ])
}

fn names(plan: &InstallPlan) -> Vec<&str> {
    plan.steps.iter().map(|step| step.name.as_str()).collect()
}

/// The arguments of each call of pip in a step, after the installer's own.
fn calls(plan: &InstallPlan, step: usize) -> Vec<Vec<&str>> {
    let install = |argv: &&Vec<String>| argv.iter().any(|argument| argument == "install");
    let commands = plan.steps[step].commands.iter().map(|command| &command.argv).filter(install);
    let own = |argv: &Vec<String>| argv.iter().position(|argument| argument == "--no-compile").unwrap() + 1;
    commands.map(|argv| argv[own(argv)..].iter().map(String::as_str).collect()).collect()
}

fn derived(plan: &InstallPlan, step: usize) -> Vec<&str> {
    plan.steps[step].replaced.iter().map(|(_, bytes)| std::str::from_utf8(bytes).unwrap()).collect()
}

fn refusal(source: &Files) -> String {
    plan_with(source, &toolchain(), &settings()).unwrap_err().failure().message
}

#[test]
fn a_lock_is_a_layer_of_its_own_below_the_project() {
    let plan = planned(&uv_project());
    let expected = ["pip install the packages of uv.lock", "pip install . and the project's own packages (uv.lock)"];
    assert_eq!(names(&plan), expected);
    let StepFiles::Only(seen) = &plan.steps[0].files else { panic!("{:?}", plan.steps[0].files) };
    assert_eq!(seen.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), [".locked/uv.lock.0.txt"]);
    assert!(plan.steps[0].pinned && plan.steps[1].keep == VENV && plan.steps[1].lower == [0]);
    assert_eq!(calls(&plan, 0), [["--no-deps", "--require-hashes", "-r", ".locked/uv.lock.0.txt"]]);
    assert_eq!(calls(&plan, 1), [["--no-deps", "own @ file:///env/studio/libs/own", "."]]);
    let own = plan.steps[1].commands.iter().find(|command| command.argv.contains(&".".to_owned())).unwrap();
    assert!(!own.env.contains_key("UV_NO_SOURCES"), "what builds a member may be another member");
    let text = derived(&plan, 0)[0];
    assert!(text.starts_with("click==8.1.8 ; python_full_version < '3.10' and"), "{text}");
    assert!(!text.contains("pytest") && !text.contains("six") && !text.contains("own @"), "{text}");
}

#[test]
fn the_lock_alone_decides_about_the_packages_of_others() {
    let before = planned(&uv_project());
    for (path, from, to, changed) in [
        ("src/ap/__init__.py", "1", "2", [false, true]),
        ("libs/own/pyproject.toml", "'1'", "'2'", [false, true]),
        ("pyproject.toml", "0.1.0", "0.2.0", [false, true]),
        // What a lock says of other groups, and where it found a package, is not what is installed.
        ("uv.lock", "https://files.example", "https://mirror.example", [false, true]),
        ("uv.lock", "8.4.2", "8.4.3", [false, true]),
        (
            "uv.lock",
            "iniconfig-2.3.1.tar.gz\", hash = \"sha256:6",
            "iniconfig-2.3.1.tar.gz\", hash = \"sha256:7",
            [true, true],
        ),
    ] {
        let mut edited = uv_project();
        let text = String::from_utf8(edited[path].clone()).unwrap();
        assert!(text.contains(from), "{from}");
        edited.insert(path.to_owned(), text.replace(from, to).into_bytes());
        let after = planned(&edited);
        let differs = [0, 1].map(|index: usize| before.steps[index].key != after.steps[index].key);
        assert_eq!(differs, changed, "{path}: {from}");
    }
}

#[test]
fn a_lock_that_does_not_fit_is_refused_by_name() {
    let edit = |mut source: Files, path: &str, from: &str, to: &str| {
        let text = String::from_utf8(source[path].clone()).unwrap();
        source.insert(path.to_owned(), text.replace(from, to).into_bytes());
        refusal(&source)
    };
    let uv = edit(uv_project(), "pyproject.toml", "\"own\"", "\"own\", \"flask\"");
    assert_eq!(
        uv,
        "`uv.lock` cannot be used: it does not fit pyproject.toml: it lacks the dependency `flask`; lock the project anew with `uv lock`"
    );
    let member = edit(uv_project(), "libs/own/pyproject.toml", "['packaging']", "[]");
    assert!(member.contains("does not fit libs/own/pyproject.toml: its dependency `packaging`"), "{member}");
    let python = edit(uv_project(), "uv.lock", "requires-python = \">=3.9\"", "requires-python = \">=3.12\"");
    assert!(python.contains("it is for Python >=3.12, and Python 3.11.2 is what builds here"), "{python}");
    let poetry = files(&[("poetry.lock", POETRY_LOCK), ("pyproject.toml", POETRY_MANIFEST)]);
    let poetry = edit(poetry, "pyproject.toml", "2.0.0", "2.1.0");
    assert!(poetry.starts_with("`poetry.lock` cannot be used: it does not fit pyproject.toml"), "{poetry}");
    let pipenv = files(&[("Pipfile.lock", PIPENV_LOCK), ("Pipfile", PIPFILE)]);
    let pipenv = edit(pipenv, "Pipfile", "2.0.0", "2.1.0");
    assert!(pipenv.starts_with("`Pipfile.lock` cannot be used: it does not fit Pipfile"), "{pipenv}");
}

#[test]
fn the_first_lock_is_taken_and_requirements_are_installed_beside_it() {
    let mut source = uv_project();
    source.insert("poetry.lock".into(), POETRY_LOCK.into());
    source.insert("Pipfile".into(), PIPFILE.into());
    source.insert("requirements.txt".into(), b"extra==1.0\n".to_vec());
    let plan = planned(&source);
    assert_eq!(plan.steps.len(), 3);
    assert_eq!(plan.steps[0].name, "pip install -r requirements.txt");
    for ignored in ["poetry.lock is not used: uv.lock comes first", "Pipfile is not used: uv.lock comes first"] {
        assert!(plan.log.iter().any(|line| line == ignored), "{:?}", plan.log);
    }
    let plan = planned(&files(&[("uv.lock", UV_LOCK)]));
    assert!(
        plan.steps.is_empty() && plan.log.iter().any(|line| line.starts_with("uv.lock is not used")),
        "{:?}",
        plan.log
    );
}

#[test]
fn a_project_that_is_no_package_is_not_installed() {
    let plan = planned(&files(&[("poetry.lock", POETRY_LOCK), ("pyproject.toml", POETRY_MANIFEST)]));
    let own = "pip install the project's own packages (poetry.lock)";
    assert_eq!(names(&plan), ["pip install the packages of poetry.lock", own]);
    assert_eq!(calls(&plan, 1), [["--no-deps", "own @ file:///env/studio/libs/own"]]);
    let package = POETRY_MANIFEST.replace("package-mode = false", "");
    let plan = planned(&files(&[("poetry.lock", POETRY_LOCK), ("pyproject.toml", &package)]));
    assert_eq!(calls(&plan, 1)[0].last(), Some(&"."));
    let unlocked = planned(&files(&[("pyproject.toml", POETRY_MANIFEST)]));
    assert!(
        unlocked.steps.is_empty() && unlocked.log.iter().any(|line| line.contains("needs a lock")),
        "{:?}",
        unlocked.log
    );
}

#[test]
fn pipenv_s_lock_stands_beside_a_pyproject_and_a_pipfile_alone_is_not_pinned() {
    let pyproject = ("pyproject.toml", "[project]\nname = 'a'\ndependencies = ['b']\n");
    let plan = planned(&files(&[("Pipfile.lock", PIPENV_LOCK), ("Pipfile", PIPFILE), pyproject]));
    assert_eq!(plan.steps.len(), 4, "{:?}", names(&plan));
    // pip takes either all hashes or none, so the line without one is in a file of its own.
    let texts = derived(&plan, 0);
    assert!(texts.len() == 2 && texts[0] == "click ; sys_platform == 'win32'\n", "{texts:?}");
    assert!(texts[1].starts_with("iniconfig==2.0.0 ; "), "{texts:?}");
    let plan = planned(&files(&[("Pipfile", PIPFILE)]));
    assert!(!plan.steps[0].pinned && plan.log.iter().any(|line| line.contains("no Pipfile.lock")), "{:?}", plan.log);
    assert_eq!(calls(&plan, 0), [["-r", ".locked/Pipfile.0.txt"]]);
    assert_eq!(calls(&plan, 1), [["own @ file:///env/studio/libs/own"]]);
}

#[test]
fn packages_of_an_index_that_the_project_names_come_from_there_alone() {
    let manifest = "[project]\nname = 'r'\nversion = '1'\ndependencies = ['a', 'b']\n\
        [[tool.uv.index]]\nurl = 'https://own.example/simple'\n";
    let lock = "version = 1\n[[package]]\nname = 'r'\nsource = { virtual = '.' }\ndependencies = [{ name = 'a' }, { name = 'b' }, { name = 'w' }]\n\
        [package.metadata]\nrequires-dist = [{ name = 'a' }, { name = 'b' }]\n\
        [[package]]\nname = 'a'\nversion = '1'\nsource = { registry = 'https://own.example/simple' }\n\
        [[package]]\nname = 'b'\nversion = '2'\nsource = { registry = 'https://other.example/simple' }\n\
        [[package]]\nname = 'w'\nversion = '2'\nsource = { path = 'vendor/w.whl' }\n";
    let mut source = files(&[("pyproject.toml", manifest), ("uv.lock", lock)]);
    assert!(refusal(&source).contains("its archive `vendor/w.whl` is not in the project"));
    source.insert("vendor/w.whl".into(), b"wheel".to_vec());
    let mut fast = toolchain();
    fast.uv = Some(Uv { program: "/opt/stead/uv/bin/uv".into(), version: "1".into() });
    let plan = plan_with(&source, &fast, &settings()).unwrap();
    assert_eq!(derived(&plan, 0), ["b==2\nw @ file:///env/studio/vendor/w.whl\n", "a==1\n"]);
    let indexes: Vec<Option<&str>> = plan.steps[0]
        .commands
        .iter()
        .filter(|command| command.argv[0].ends_with("/uv"))
        .map(|command| command.env.get("UV_DEFAULT_INDEX").map(String::as_str))
        .collect();
    assert_eq!(indexes, [None, Some("https://own.example/simple")]);
    source.insert("vendor/w.whl".into(), b"other".to_vec());
    assert_ne!(plan.steps[0].key, plan_with(&source, &fast, &settings()).unwrap().steps[0].key);
    assert_eq!(plan.steps.len(), 1);
}

#[test]
fn what_own_packages_need_is_below_them_unless_they_are_it() {
    let mut source = files(&[
        ("requirements.txt", "a==1.0\n-e .\n./libs/x[fast]\n"),
        ("pyproject.toml", "[project]\nname = 'root'\ndependencies = ['b', 'Lib_X>=1']\n"),
        ("libs/x/pyproject.toml", "[project]\nname = 'lib.x'\ndependencies = ['c', 'root']\n"),
    ]);
    assert_eq!(derived(&planned(&source), 0), ["a==1.0\nb\nc\n"]);
    // Of a package that only its build knows, neither name nor needs are known.
    source.remove("libs/x/pyproject.toml");
    source.insert("libs/x/setup.py".into(), b"".to_vec());
    assert_eq!(derived(&planned(&source), 0), ["a==1.0\n"]);
}
