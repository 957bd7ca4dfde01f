//! Locks of Python's tools: `uv.lock`, `poetry.lock`, `Pipfile.lock`, and a `Pipfile` without one.
//!
//! A lock becomes requirements files of our own, one for each index, in a layer that only they are the key of: nothing of the
//! project's source is in the step but archives that the lock names. Packages that lie in the source come after them,
//! together with the project itself, in a step that sees the whole source. Neither resolves anything.

use std::collections::BTreeMap;

use stead_bundles::manifest::{
    LockError, LockedRequirement, LockedSource, PipfileLock, PoetryLock, Pyproject, PythonLock, UvLock,
    pipfile_requirements, version_fits,
};
use stead_domain::source::{EntryKind, SourceEntry};
use stead_domain::{BlobId, SourcePath};

use super::python::{Call, Install, PYPROJECT};
use super::{PlanError, Planner, VENV};

pub(super) const UV: &str = "uv.lock";
const POETRY: &str = "poetry.lock";
const PIPENV: &str = "Pipfile.lock";
const PIPFILE: &str = "Pipfile";

/// The lock that a build installs.
pub(super) struct FoundLock {
    file: &'static str,
    pub(super) lock: PythonLock,
}

impl FoundLock {
    /// Whether it covers what `pyproject.toml` asks for. Pipenv's locks are made from a `Pipfile` instead, which covers it when
    /// it names the project itself.
    pub(super) fn replaces_dependencies(&self) -> bool {
        matches!(self.file, UV | POETRY) || self.lock.installs_root
    }
}

impl Planner<'_> {
    /// The first lock that there is: uv's, Poetry's, Pipenv's. One that does not fit its manifest is refused, as the tools
    /// themselves do when they are told not to change it.
    pub(super) fn find_python_lock(&mut self, pyproject: Option<&Pyproject>) -> Result<Option<FoundLock>, PlanError> {
        let mut found: Option<FoundLock> = None;
        for file in [UV, POETRY, PIPENV, PIPFILE] {
            let Some(entry) = self.sources.file(file) else { continue };
            if let Some(first) = &found {
                // A Pipfile is what its lock was made from, and not something else beside it.
                if (first.file, file) != (PIPENV, PIPFILE) {
                    self.log.push(format!("{file} is not used: {} comes first", first.file));
                }
                continue;
            }
            let lock = match (file, pyproject) {
                (UV | POETRY, None) => {
                    self.log.push(format!("{file} is not used: there is no {PYPROJECT} beside it"));
                    continue;
                }
                (UV, Some(pyproject)) => self.read_uv(entry, pyproject)?,
                (POETRY, Some(pyproject)) => self.read_poetry(entry, pyproject)?,
                (PIPENV, _) => self.read_pipenv(entry)?,
                _ => {
                    let line =
                        "there is no Pipfile.lock, so its packages are installed in their newest fitting versions";
                    self.log.push(format!("{PIPFILE}: {line}"));
                    let lock = pipfile_requirements(&self.sources.read(entry)?);
                    lock.map_err(|source| PlanError::manifest(PIPFILE, source))?
                }
            };
            found = Some(FoundLock { file, lock });
        }
        Ok(found)
    }

    fn read_uv(&self, entry: &SourceEntry, pyproject: &Pyproject) -> Result<PythonLock, PlanError> {
        let refuse = |source| PlanError::manifest(UV, source);
        let parsed = UvLock::parse(&self.sources.read(entry)?, &pyproject.named_indexes).map_err(refuse)?;
        for member in &parsed.members {
            let path =
                if member.directory.is_empty() { PYPROJECT } else { &format!("{}/{PYPROJECT}", member.directory) };
            let Some(manifest) = self.sources.file(path) else { continue };
            let manifest =
                Pyproject::parse(&self.sources.read(manifest)?).map_err(|source| PlanError::manifest(path, source))?;
            member.fits(&manifest).map_err(refuse)?;
        }
        self.refuse_python(UV, &parsed.lock)?;
        Ok(parsed.lock)
    }

    fn read_poetry(&self, entry: &SourceEntry, pyproject: &Pyproject) -> Result<PythonLock, PlanError> {
        let refuse = |source| PlanError::manifest(POETRY, source);
        let manifest = self.sources.file(PYPROJECT).map(|manifest| self.sources.read(manifest)).transpose()?;
        let parsed = PoetryLock::parse(&self.sources.read(entry)?, &manifest.unwrap_or_default()).map_err(refuse)?;
        parsed.fits().map_err(refuse)?;
        self.refuse_python(POETRY, &parsed.lock)?;
        // Without a build system pip would not know that the project is Poetry's.
        let installs_root = pyproject.has_build_system && pyproject.is_package != Some(false);
        Ok(PythonLock { installs_root, ..parsed.lock })
    }

    fn read_pipenv(&mut self, entry: &SourceEntry) -> Result<PythonLock, PlanError> {
        let refuse = |source| PlanError::manifest(PIPENV, source);
        let parsed = PipfileLock::parse(&self.sources.read(entry)?).map_err(refuse)?;
        if let Some(pipfile) = self.sources.file(PIPFILE) {
            parsed.fits(&self.sources.read(pipfile)?).map_err(refuse)?;
        }
        // Pipenv, too, only warns.
        if let Err(error) = self.refuse_python(PIPENV, &parsed.lock) {
            self.log.push(error.failure().message);
        }
        Ok(parsed.lock)
    }

    fn refuse_python(&self, file: &str, lock: &PythonLock) -> Result<(), PlanError> {
        let (Some(requires), Some(python)) = (&lock.requires_python, self.python) else { return Ok(()) };
        match version_fits(requires, &python.version) {
            Some(false) => {
                let error = LockError::Python { requires: requires.clone(), found: python.version.clone() };
                Err(PlanError::manifest(file, error))
            }
            _ => Ok(()),
        }
    }

    /// Installs what a lock names from elsewhere.
    pub(super) fn push_locked(&mut self, found: &FoundLock) -> Result<(), PlanError> {
        let FoundLock { file, lock } = found;
        let packages: Vec<&LockedRequirement> =
            lock.packages.iter().filter(|package| !matches!(package.source, LockedSource::Directory(_))).collect();
        let mut files = Vec::new();
        // One file for each index, so that a package is taken from its own; and pip takes either all hashes or none.
        let mut groups: BTreeMap<(Option<&String>, bool), Vec<String>> = BTreeMap::new();
        for package in &packages {
            let index = match &package.source {
                LockedSource::Index(index) => index.as_ref(),
                LockedSource::Archive(path) => {
                    files.push(self.sources.file(path).cloned().ok_or_else(|| {
                        let reason = format!("its archive `{path}` is not in the project");
                        PlanError::manifest(file, LockError::Package { name: package.name.clone(), reason })
                    })?);
                    None
                }
                _ => None,
            };
            let line = package.line(&self.settings.slug.mount());
            groups.entry((index, !package.hashes.is_empty())).or_default().push(line);
        }
        let mut calls = Vec::new();
        let mut replaced = Vec::new();
        for (number, ((index, hashed), lines)) in groups.into_iter().enumerate() {
            let path = format!(".locked/{file}.{number}.txt");
            let text = format!("{}\n", lines.join("\n")).into_bytes();
            let place = SourcePath::parse(&path).map_err(|error| PlanError::manifest(file, error))?;
            files.push(derived(place.clone(), &text, self.sources.file(file)));
            replaced.push((place, text));
            let mut arguments = vec!["-r".to_owned(), path];
            // Not in the file, where uv would not read it.
            if hashed {
                arguments.insert(0, "--require-hashes".to_owned());
            }
            // What a manifest asks for without a lock brings its own dependencies.
            if *file != PIPFILE {
                arguments.insert(0, "--no-deps".to_owned());
            }
            calls.push(Call { arguments, index: index.cloned() });
        }
        let left_out = "; development groups and extras are left out";
        self.log.push(format!("{file}: packages: {}{left_out}", packages.len()));
        self.push_install(Install {
            file,
            name: format!("pip install the packages of {file}"),
            calls,
            files: Some(files),
            replaced,
            keep: VENV,
            pinned: packages.iter().all(|package| package.is_pinned()),
            by_uv: true,
        })
    }

    /// Installs the packages of the source that a lock names, and the project where it is one.
    pub(super) fn push_own(&mut self, found: &FoundLock, root: bool) -> Result<(), PlanError> {
        let FoundLock { file, lock } = found;
        let mount = self.settings.slug.mount();
        let local = lock.packages.iter().filter(|package| matches!(package.source, LockedSource::Directory(_)));
        let mut arguments: Vec<String> = local.map(|package| package.line(&mount)).collect();
        let name = match (arguments.is_empty(), root) {
            (true, false) => return Ok(()),
            (true, true) => format!("pip install . ({PYPROJECT})"),
            (false, false) => format!("pip install the project's own packages ({file})"),
            (false, true) => format!("pip install . and the project's own packages ({file})"),
        };
        if root {
            arguments.push(".".to_owned());
        }
        // A `Pipfile` alone says nothing of what they need.
        if *file != PIPFILE {
            arguments.insert(0, "--no-deps".to_owned());
        }
        self.push_install(Install {
            file,
            name,
            calls: vec![Call { arguments, index: None }],
            files: None,
            replaced: Vec::new(),
            keep: VENV,
            pinned: *file != PIPFILE,
            by_uv: true,
        })
    }
}

/// A file that is in no source; its bytes go with the step.
fn derived(path: SourcePath, bytes: &[u8], from: Option<&SourceEntry>) -> SourceEntry {
    let blob = BlobId::from_bytes(*blake3::hash(bytes).as_bytes());
    let kind = EntryKind::File { executable: false, size: bytes.len() as u64, blob };
    SourceEntry {
        path,
        kind,
        modified_at: from.map_or(stead_domain::Timestamp::from_micros(0), |entry| entry.modified_at),
    }
}

#[cfg(test)]
mod tests;
