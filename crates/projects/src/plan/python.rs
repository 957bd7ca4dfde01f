//! Python packages: `requirements.txt`, then a lock, then `pyproject.toml`, all into `.venv`.

use std::collections::BTreeMap;

use stead_bundles::manifest::{Pyproject, dependency_name};
use stead_domain::SourcePath;
use stead_domain::build::Stage;
use stead_domain::source::SourceEntry;

use super::python_lock::UV as UV_LOCK;
use super::requirements::{REQUIREMENTS, Reading, without_local};
use super::step::{Command, Draft, PackageList};
use super::{PlanError, Planner, VENV};
use crate::environment::installer_env;

pub(super) const PYPROJECT: &str = "pyproject.toml";
/// Makes `.venv`.
const MAKE_VENV: &str = include_str!("../scripts/make_venv.py");
/// Compiles what has no byte code of its present content yet: `compileall` would rewrite what a lower layer holds.
const COMPILE: &str = include_str!("../scripts/compile.py");
/// Prints what is installed, without what a fresh `.venv` brings along.
const LIST: &str = include_str!("../scripts/list_packages.py");

/// One step that installs, with one or more calls of pip.
pub(super) struct Install<'a> {
    /// The manifest it is for.
    pub(super) file: &'a str,
    pub(super) name: String,
    pub(super) calls: Vec<Call>,
    /// None for the whole source.
    pub(super) files: Option<Vec<SourceEntry>>,
    pub(super) replaced: Vec<(SourcePath, Vec<u8>)>,
    pub(super) keep: &'static str,
    pub(super) pinned: bool,
    /// Whether uv may do it. Lines that are not understood are left to pip, whose format they are in.
    pub(super) by_uv: bool,
}

/// One call of pip.
pub(super) struct Call {
    pub(super) arguments: Vec<String>,
    /// The index that it asks instead of the server's.
    pub(super) index: Option<String>,
}

impl Call {
    pub(super) fn new<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        Self { arguments: arguments.into_iter().map(Into::into).collect(), index: None }
    }
}

impl Planner<'_> {
    pub(super) fn plan_python(&mut self) -> Result<(), PlanError> {
        let pyproject = match self.sources.file(PYPROJECT) {
            Some(manifest) => Some(
                Pyproject::parse(&self.sources.read(manifest)?)
                    .map_err(|source| PlanError::manifest(PYPROJECT, source))?,
            ),
            None => None,
        };
        let lock = self.find_python_lock(pyproject.as_ref())?;
        let mut installs_root = false;
        if let Some(manifest) = self.sources.file(REQUIREMENTS) {
            installs_root = self.push_requirements(manifest, pyproject.as_ref())?;
        }
        if installs_root && pyproject.as_ref().is_some_and(Pyproject::is_installable) {
            let line = format!("{REQUIREMENTS} installs the project itself, so {PYPROJECT} is not installed once more");
            self.log.push(line);
        }
        if let Some(lock) = &lock {
            self.push_locked(lock)?;
            self.push_own(lock, !installs_root && lock.lock.installs_root)?;
            if lock.replaces_dependencies() {
                return Ok(());
            }
        }
        let Some(pyproject) = pyproject else { return Ok(()) };
        if installs_root {
            return Ok(());
        }
        if pyproject.is_installable() {
            self.push_pyproject(&pyproject)
        } else {
            self.log.push(format!("{PYPROJECT} only configures tools: nothing to install"));
            Ok(())
        }
    }

    /// Installs `requirements.txt`; says whether that installs the project itself. Where lines name the project's own
    /// packages, the others come first as a layer of their own, so that an edit of the source does not install them anew.
    fn push_requirements(&mut self, manifest: &SourceEntry, pyproject: Option<&Pyproject>) -> Result<bool, PlanError> {
        let bytes = self.sources.read(manifest)?;
        let reading = self.follow_requirements(manifest, &bytes)?;
        if reading.whole {
            let why = "a line names the project's own files or is not understood";
            self.log.push(format!("{REQUIREMENTS}: {why}, so every change of the source installs it anew"));
            // A package of the source has no hash: pip refuses it by name where one is required, before anything else.
            if let Some(mut others) = without_local(&bytes).filter(|_| !reading.hashed) {
                let own = self.dependencies_of_own(&reading, pyproject).unwrap_or_default();
                own.iter().for_each(|dependency| others.extend_from_slice(format!("{dependency}\n").as_bytes()));
                let first = self.follow_requirements(manifest, &others)?;
                if first.names_others && !first.whole {
                    self.push_install(Install {
                        file: REQUIREMENTS,
                        name: format!("pip install -r {REQUIREMENTS} without the project's own packages"),
                        calls: vec![Call::new(["-r", REQUIREMENTS])],
                        files: Some(first.files.into_values().collect()),
                        replaced: vec![(manifest.path.clone(), others)],
                        keep: VENV,
                        pinned: first.pinned,
                        by_uv: true,
                    })?;
                }
            }
        }
        // pip would find out by itself; uv takes a line with a hash for one that concerns that line alone.
        let required = reading.hashed.then_some("--require-hashes");
        self.push_install(Install {
            file: REQUIREMENTS,
            name: format!("pip install -r {REQUIREMENTS}"),
            calls: vec![Call::new(required.into_iter().chain(["-r", REQUIREMENTS]))],
            files: (!reading.whole).then(|| reading.files.into_values().collect()),
            replaced: Vec::new(),
            keep: if reading.editable { "" } else { VENV },
            pinned: reading.pinned,
            by_uv: !reading.whole,
        })?;
        Ok(reading.installs_root)
    }

    /// What the project's own packages that lines name need from elsewhere. None where that is not known of all of them: a
    /// dependency may then be one of them, and an index may hold a stranger's package of that name.
    fn dependencies_of_own(&self, reading: &Reading, root: Option<&Pyproject>) -> Option<Vec<String>> {
        let mut manifests: Vec<Pyproject> = root.filter(|_| reading.installs_root).cloned().into_iter().collect();
        for directory in &reading.local {
            let manifest = self.sources.file(&format!("{directory}/{PYPROJECT}"))?;
            manifests.push(Pyproject::parse(&self.sources.read(manifest).ok()?).ok()?);
        }
        let names: Vec<String> =
            manifests.iter().map(|manifest| dependency_name(manifest.name.as_deref()?)).collect::<Option<_>>()?;
        let needed: Vec<Vec<String>> = manifests.iter().map(plain_dependencies).collect::<Option<_>>()?;
        let is_own = |spec: &String| dependency_name(spec).is_none_or(|name| names.contains(&name));
        Some(needed.into_iter().flatten().filter(|spec| !is_own(spec)).collect())
    }

    /// The dependencies as a layer of their own where they can be known without running the build backend, then the
    /// project on top of them.
    fn push_pyproject(&mut self, pyproject: &Pyproject) -> Result<(), PlanError> {
        let itself = |calls, pinned| Install {
            file: PYPROJECT,
            name: format!("pip install . ({PYPROJECT})"),
            calls,
            files: None,
            replaced: Vec::new(),
            keep: VENV,
            pinned,
            by_uv: true,
        };
        let dependencies = plain_dependencies(pyproject);
        let is_package = pyproject.is_package != Some(false);
        if !is_package {
            self.log
                .push(format!("{PYPROJECT} says that the project is no package: only its dependencies are installed"));
        }
        let Some(dependencies) = dependencies else {
            if !is_package {
                self.log
                    .push(format!("{PYPROJECT}: its dependencies are known to its own tool alone, so it needs a lock"));
                return Ok(());
            }
            let line =
                format!("{PYPROJECT}: its dependencies are not static, so every change of the source installs anew");
            self.log.push(line);
            return self.push_install(itself(vec![Call::new(["."])], false));
        };
        let call = (!dependencies.is_empty()).then(|| Call::new(dependencies));
        self.push_install(Install {
            file: PYPROJECT,
            name: format!("pip install the dependencies of {PYPROJECT}"),
            calls: call.into_iter().collect(),
            files: Some(Vec::new()),
            replaced: Vec::new(),
            keep: VENV,
            pinned: false,
            by_uv: true,
        })?;
        if is_package { self.push_install(itself(vec![Call::new(["--no-deps", "."])], true)) } else { Ok(()) }
    }

    /// One step, on top of every earlier Python step.
    pub(super) fn push_install(&mut self, install: Install<'_>) -> Result<(), PlanError> {
        let Install { file, name, calls, files, replaced, keep, pinned, by_uv } = install;
        let python = self.python.ok_or_else(|| Self::missing(file, "Python 3"))?;
        let pip = python.pip.as_ref().ok_or_else(|| Self::missing(file, "Python's venv with pip"))?;
        let env = self.python_env();
        let interpreter = self.in_venv("bin/python");
        let lower: Vec<usize> =
            (0..self.steps.len()).filter(|index| self.steps[*index].stage == Stage::PythonPackages).collect();
        let mut commands = Vec::new();
        if lower.is_empty() {
            let venv = format!("{}/{VENV}", self.settings.slug.mount());
            let uv = self.toolchain.uv.iter().map(|uv| uv.program.as_str());
            let make = [python.program.as_str(), "-I", "-c", MAKE_VENV, &venv];
            commands.push(self.command(&env, make.into_iter().chain(uv)));
        }
        // `-I`: with the mount on its path, a project file named like a module of Python's own would break the installer.
        let (installer, front): (String, Vec<&str>) = match &self.toolchain.uv {
            Some(uv) if by_uv => {
                let front = vec![&uv.program, "pip", "install", "--python", interpreter.as_str()];
                (format!("uv {}, pip {pip}", uv.version), front)
            }
            _ => (format!("pip {pip}"), vec![&interpreter, "-I", "-m", "pip", "install", "--no-compile"]),
        };
        for call in &calls {
            let mut env = env.clone();
            // What a package of a uv lock needs to be built may be another one of its workspace.
            if file != UV_LOCK {
                env.insert("UV_NO_SOURCES".to_owned(), "1".to_owned());
            }
            if let Some(index) = &call.index {
                env.insert("PIP_INDEX_URL".to_owned(), index.clone());
                env.insert("UV_DEFAULT_INDEX".to_owned(), index.clone());
            }
            commands.push(self.command(&env, front.iter().copied().chain(call.arguments.iter().map(String::as_str))));
        }
        let library = self.in_venv("lib");
        // Byte code is of one interpreter's version.
        commands.push(self.command(&env, [python.program.as_str(), "-I", "-W", "ignore", "-c", COMPILE, &library]));
        let packages = vec![PackageList::Pip(self.list_pip())];
        let stage = Stage::PythonPackages;
        self.push(Draft { stage, name, installer, files, replaced, keep, lower, commands, packages, pinned });
        Ok(())
    }

    /// The command that lists what `.venv` holds.
    pub(super) fn list_pip(&self) -> Command {
        self.listing(&self.python_env(), [self.in_venv("bin/python").as_str(), "-I", "-c", LIST])
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

/// The dependencies that the manifest itself names, if it names them all and each means a package.
fn plain_dependencies(pyproject: &Pyproject) -> Option<Vec<String>> {
    pyproject.static_dependencies().filter(|list| list.iter().all(|spec| is_plain(spec)))
}

/// Whether a dependency of a `pyproject.toml` can stand on a command line and mean a package.
fn is_plain(spec: &str) -> bool {
    let is_path = spec.contains("file:") || spec.contains("{root") || spec.starts_with(['.', '/', '~']);
    spec.starts_with(|character: char| character.is_ascii_alphanumeric())
        && !is_path
        && !spec.chars().any(char::is_control)
}
