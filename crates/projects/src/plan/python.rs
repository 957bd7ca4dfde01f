//! Python packages: `requirements.txt`, then `pyproject.toml`, both into `.venv`.

use std::collections::{BTreeMap, BTreeSet};

use stead_bundles::manifest::{LineKind, Pyproject, ReadPath, Requirements};
use stead_domain::build::Stage;
use stead_domain::source::SourceEntry;

use super::step::{Command, Draft, PackageList};
use super::{PlanError, Planner, VENV};
use crate::environment::installer_env;
use crate::toolchain::PYTHON;

const REQUIREMENTS: &str = "requirements.txt";
const PYPROJECT: &str = "pyproject.toml";
/// Compiles what has no byte code of its present content yet: `compileall` would rewrite what a lower layer holds.
const COMPILE: &str = include_str!("../scripts/compile.py");
/// Prints what is installed, without what a fresh `.venv` brings along.
const LIST: &str = include_str!("../scripts/list_packages.py");
/// A requirements file that includes this many others is not understood any more.
const MAX_INCLUDES: usize = 500;

/// What pip will read because of `requirements.txt`.
#[derive(Default)]
struct Reading {
    files: BTreeMap<String, SourceEntry>,
    whole: bool,
    unpinned: bool,
    /// A line installs something in place, which writes beside the source.
    editable: bool,
    /// A line installs the project itself.
    installs_root: bool,
}

impl Planner<'_> {
    pub(super) fn plan_python(&mut self) -> Result<(), PlanError> {
        let mut installs_root = false;
        if let Some(manifest) = self.sources.file(REQUIREMENTS) {
            let reading = self.follow_requirements(manifest)?;
            installs_root = reading.installs_root;
            self.push_requirements(reading)?;
        }
        let Some(manifest) = self.sources.file(PYPROJECT) else { return Ok(()) };
        let pyproject =
            Pyproject::parse(&self.sources.read(manifest)?).map_err(|source| PlanError::manifest(PYPROJECT, source))?;
        if !pyproject.is_installable() {
            self.log.push(format!("{PYPROJECT} only configures tools: nothing to install"));
        } else if installs_root {
            self.log.push(format!("{REQUIREMENTS} installs the project itself, so {PYPROJECT} is not installed once more"));
        } else {
            self.push_pyproject(&pyproject)?;
        }
        Ok(())
    }

    /// Follows `-r` and `-c` through the source.
    fn follow_requirements(&self, manifest: &SourceEntry) -> Result<Reading, PlanError> {
        let mut reading = Reading::default();
        let mut queue = vec![(manifest, true)];
        let mut seen = BTreeSet::new();
        while let Some((entry, installs)) = queue.pop() {
            let file = entry.path.as_str();
            if !seen.insert((file, installs)) {
                continue;
            }
            if seen.len() > MAX_INCLUDES {
                reading.whole = true;
                break;
            }
            reading.files.insert(file.to_owned(), entry.clone());
            let parsed = Requirements::parse(file, &self.sources.read(entry)?)
                .map_err(|source| PlanError::manifest(file, source))?;
            reading.whole |= parsed.needs_whole_source;
            if installs {
                reading.unpinned |= !parsed.is_pinned();
                for line in &parsed.lines {
                    reading.note(&line.kind);
                }
            }
            for path in parsed.reads {
                match path {
                    ReadPath::Requirements(path) => queue.extend(self.sources.file(&path).map(|entry| (entry, installs))),
                    ReadPath::Constraints(path) => queue.extend(self.sources.file(&path).map(|entry| (entry, false))),
                    ReadPath::File(path) => {
                        reading.files.extend(self.sources.file(&path).map(|entry| (path, entry.clone())));
                    }
                    ReadPath::Directory(path) if path.is_empty() => reading.whole = true,
                    ReadPath::Directory(path) => {
                        let beneath = self.sources.beneath(&path);
                        reading.files.extend(beneath.map(|entry| (entry.path.to_string(), entry.clone())));
                    }
                }
            }
        }
        Ok(reading)
    }

    fn push_requirements(&mut self, reading: Reading) -> Result<(), PlanError> {
        if reading.whole {
            let why = "a line names the project's own files or is not understood";
            self.log.push(format!("{REQUIREMENTS}: {why}, so every change of the source installs anew"));
        }
        let name = format!("pip install -r {REQUIREMENTS}");
        let keep = if reading.editable { "" } else { VENV };
        let files = (!reading.whole).then(|| reading.files.into_values().collect());
        self.push_pip(REQUIREMENTS, name, &["-r", REQUIREMENTS], files, keep, !reading.unpinned)
    }

    /// The dependencies as a layer of their own where they can be known without running the build backend, then the
    /// project on top of them.
    fn push_pyproject(&mut self, pyproject: &Pyproject) -> Result<(), PlanError> {
        let known = pyproject.static_dependencies().filter(|list| list.iter().all(|spec| is_plain(spec)));
        let Some(dependencies) = known else {
            self.log.push(format!("{PYPROJECT}: its dependencies are not static, so every change of the source installs anew"));
            return self.push_pip(PYPROJECT, format!("pip install . ({PYPROJECT})"), &["."], None, VENV, false);
        };
        let arguments: Vec<&str> = dependencies.iter().map(String::as_str).collect();
        let name = format!("pip install the dependencies of {PYPROJECT}");
        self.push_pip(PYPROJECT, name, &arguments, Some(Vec::new()), VENV, false)?;
        self.push_pip(PYPROJECT, format!("pip install . ({PYPROJECT})"), &["--no-deps", "."], None, VENV, true)
    }

    /// One step that installs with pip's arguments, on top of every earlier Python step.
    fn push_pip(
        &mut self,
        file: &str,
        name: String,
        arguments: &[&str],
        files: Option<Vec<SourceEntry>>,
        keep: &'static str,
        pinned: bool,
    ) -> Result<(), PlanError> {
        let python = self.toolchain.python.as_ref().ok_or_else(|| Self::missing(file, "Python 3"))?;
        let pip = python.pip.as_ref().ok_or_else(|| Self::missing(file, "Python's venv with pip"))?;
        let env = self.python_env();
        let interpreter = self.in_venv("bin/python");
        let lower: Vec<usize> =
            (0..self.steps.len()).filter(|index| self.steps[*index].stage == Stage::PythonPackages).collect();
        let mut commands = Vec::new();
        if lower.is_empty() {
            let venv = format!("{}/{VENV}", self.settings.slug.mount());
            commands.push(self.command(&env, [PYTHON, "-I", "-m", "venv", &venv]));
        }
        // `-I`: with the mount on its path, a project file named like a module of Python's own would break the installer.
        let (installer, front): (String, Vec<&str>) = match &self.toolchain.uv {
            Some(uv) => {
                let front = vec![&uv.program, "pip", "install", "--python", interpreter.as_str()];
                (format!("uv {}, pip {pip}", uv.version), front)
            }
            None => (format!("pip {pip}"), vec![&interpreter, "-I", "-m", "pip", "install", "--no-compile"]),
        };
        if !arguments.is_empty() {
            commands.push(self.command(&env, front.into_iter().chain(arguments.iter().copied())));
        }
        commands.push(self.command(&env, [PYTHON, "-I", "-W", "ignore", "-c", COMPILE, &self.in_venv("lib")]));
        let packages = vec![PackageList::Pip(self.list_pip())];
        let stage = Stage::PythonPackages;
        let replaced = Vec::new();
        self.push(Draft { stage, name, installer, files, replaced, keep, lower, commands, packages, pinned });
        Ok(())
    }

    /// The command that lists what `.venv` holds.
    pub(super) fn list_pip(&self) -> Command {
        self.command(&self.python_env(), [self.in_venv("bin/python").as_str(), "-I", "-c", LIST])
    }

    /// Build backends call programs of the environment they install into.
    fn python_env(&self) -> BTreeMap<String, String> {
        let mut env = installer_env(self.settings);
        let path = format!("{}:{}", self.in_venv("bin"), env.get("PATH").map_or("", String::as_str));
        env.insert("PATH".to_owned(), path);
        env.insert("VIRTUAL_ENV".to_owned(), format!("{}/{VENV}", self.settings.slug.mount()));
        env
    }
}

impl Reading {
    fn note(&mut self, kind: &LineKind) {
        let path = match kind {
            LineKind::Editable { target } => {
                self.editable = true;
                target
            }
            LineKind::LocalProject { path } => path,
            _ => return,
        };
        let path = path.split('[').next().unwrap_or_default();
        self.installs_root |= path.split('/').all(|segment| matches!(segment, "" | ".")) && !path.starts_with('/');
    }
}

/// Whether a dependency of a `pyproject.toml` can stand on a command line and mean a package.
fn is_plain(spec: &str) -> bool {
    let is_path = spec.contains("file:") || spec.contains("{root") || spec.starts_with(['.', '/', '~']);
    spec.starts_with(|character: char| character.is_ascii_alphanumeric()) && !is_path && !spec.chars().any(char::is_control)
}
