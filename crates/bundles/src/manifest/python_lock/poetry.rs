//! `poetry.lock`, in every format since 1.0.

use toml::{Table, Value};

use super::PythonLock;
use super::error::LockError;
use super::reach::Need;
use super::requirement::{LockedRequirement, LockedSource, local_path};
use super::{poetry_fit, poetry_walk};
use crate::manifest::text::decode;

/// A parsed `poetry.lock` and the `pyproject.toml` beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct PoetryLock {
    /// What its main group comes to.
    pub lock: PythonLock,
    manifest: Table,
    content_hash: Option<String>,
}

impl PoetryLock {
    /// Parses both files' bytes. Since format 2.1 a package says itself who needs it; in older ones that follows from the
    /// dependencies in the manifest.
    pub fn parse(lock: &[u8], manifest: &[u8]) -> Result<Self, LockError> {
        let table = parsed(lock)?;
        let manifest = parsed(manifest)?;
        let metadata = table.get("metadata").and_then(Value::as_table);
        let metadata = metadata.ok_or_else(|| LockError::Unsupported("it has no metadata".to_owned()))?;
        let text = |key: &str| metadata.get(key).and_then(Value::as_str);
        let format = text("lock-version").unwrap_or("1.0");
        if !format.starts_with("1.") && !format.starts_with("2.") {
            return Err(LockError::Unsupported(format!("lock-version {format}")));
        }
        let packages = table.get("package").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table);
        let packages = packages.map(|table| Package::read(table, metadata)).collect::<Result<Vec<_>, _>>()?;
        let says_groups = packages.iter().any(|package| package.table.contains_key("groups"));
        let needed = if says_groups {
            packages.iter().map(Package::needed_by_main).collect()
        } else {
            poetry_walk::needed(&packages, &manifest)?
        };
        let mut lock = PythonLock {
            // The project's own, not the package's: whether it is one is the manifest's to say.
            installs_root: true,
            requires_python: text("python-versions").map(str::to_owned),
            ..PythonLock::default()
        };
        for (package, needed) in packages.iter().zip(needed) {
            if needed.is_somewhere() {
                lock.packages.push(package.requirement(needed.marker())?);
            }
        }
        let content_hash = text("content-hash").map(str::to_owned);
        Ok(Self { lock: lock.sorted(), manifest, content_hash })
    }

    /// Compares with the manifest by the hash that Poetry keeps of it.
    pub fn fits(&self) -> Result<(), LockError> {
        let hashes = poetry_fit::hashes(&self.manifest);
        match &self.content_hash {
            Some(then) if !hashes.is_empty() && !hashes.contains(then) => Err(LockError::Stale {
                manifest: "pyproject.toml".to_owned(),
                reason: "the dependencies in it have changed since".to_owned(),
                command: "poetry lock",
            }),
            _ => Ok(()),
        }
    }
}

/// One entry.
pub(super) struct Package<'a> {
    pub(super) name: &'a str,
    pub(super) version: &'a str,
    pub(super) table: &'a Table,
    hashes: Vec<String>,
}

impl<'a> Package<'a> {
    fn read(table: &'a Table, metadata: &'a Table) -> Result<Self, LockError> {
        let text = |key: &str| table.get(key).and_then(Value::as_str);
        let name = text("name").ok_or_else(|| LockError::Unsupported("a package without a name".to_owned()))?;
        let version = text("version").ok_or_else(|| LockError::package(name, "it has no version"))?;
        // Each package lists its files; formerly one table did for all.
        let former = |key: &str| metadata.get(key).and_then(|files| files.get(name));
        let files = table.get("files").or_else(|| former("files")).or_else(|| former("hashes"));
        let files = files.and_then(Value::as_array).into_iter().flatten();
        let hash = |file: &Value| Some(file.get("hash").unwrap_or(file).as_str()?.to_owned());
        let mut hashes: Vec<String> = files.filter_map(hash).map(with_kind).collect();
        hashes.sort_unstable();
        hashes.dedup();
        Ok(Self { name, version, table, hashes })
    }

    /// Where the main group needs it.
    fn needed_by_main(&self) -> Need {
        let mut groups = self.table.get("groups").and_then(Value::as_array).into_iter().flatten();
        let is_optional = self.table.get("optional").and_then(Value::as_bool) == Some(true);
        if is_optional || groups.all(|group| group.as_str() != Some("main")) {
            return Need::Nowhere;
        }
        // One marker for all groups, or one for each group that has one.
        let markers = self.table.get("markers");
        let marker = markers.and_then(Value::as_str).or_else(|| markers?.get("main")?.as_str());
        Need::of_marker(marker.map(str::to_owned))
    }

    fn requirement(&self, marker: Option<String>) -> Result<LockedRequirement, LockError> {
        let from = self.table.get("source").and_then(Value::as_table);
        let text = |key: &str| from.and_then(|from| from.get(key)).and_then(Value::as_str);
        let url = || text("url").ok_or_else(|| LockError::package(self.name, "its source has no address"));
        let subdirectory = text("subdirectory").map(str::to_owned);
        let mut hashes = self.hashes.clone();
        let mut specifier = String::new();
        let source = match text("type") {
            None | Some("legacy") => {
                specifier = format!("=={}", self.version);
                LockedSource::Index(from.map(|_| url().map(str::to_owned)).transpose()?)
            }
            Some("git") => {
                let commit = text("resolved_reference").or_else(|| text("reference"));
                let commit = commit.ok_or_else(|| LockError::package(self.name, "it names no commit"))?.to_owned();
                hashes.clear();
                LockedSource::Git { url: git_address(url()?), commit, subdirectory }
            }
            Some("url") => LockedSource::Url { url: url()?.to_owned(), subdirectory },
            Some("file") => LockedSource::Archive(local_path(self.name, "", url()?)?),
            Some("directory") => {
                hashes.clear();
                LockedSource::Directory(local_path(self.name, "", url()?)?)
            }
            Some(other) => return Err(LockError::package(self.name, format!("its source `{other}` is not supported"))),
        };
        LockedRequirement { name: self.name.to_owned(), specifier, marker, hashes, source }.checked()
    }
}

/// The oldest format leaves out which hash it is.
fn with_kind(hash: String) -> String {
    if hash.contains(':') { hash } else { format!("sha256:{hash}") }
}

/// `git@host:owner/repo` is no address, but what people copy.
pub(super) fn git_address(url: &str) -> String {
    let url = url.strip_prefix("git+").unwrap_or(url);
    match url.split_once(':') {
        Some((host, path)) if !url.contains("://") && host.contains('@') => format!("ssh://{host}/{path}"),
        _ => url.to_owned(),
    }
}

fn parsed(bytes: &[u8]) -> Result<Table, LockError> {
    let text = decode(bytes).map_err(LockError::Text)?;
    text.parse().map_err(|error: toml::de::Error| LockError::Syntax(error.message().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = include_str!("../../../tests/locks/poetry.lock");
    const MANIFEST: &str = include_str!("../../../tests/locks/poetry.pyproject.toml");

    fn lines(lock: &PythonLock) -> Vec<String> {
        lock.packages.iter().map(|one| one.line("/m").split(" --hash").next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn a_lock_comes_to_its_main_group_in_every_format() {
        let parsed = PoetryLock::parse(LOCK.as_bytes(), MANIFEST.as_bytes()).unwrap();
        let expected = [
            "colorama==0.4.6 ; sys_platform == \"win32\"",
            "iniconfig==2.0.0",
            "own @ file:///m/libs/own",
            "packaging==24.2",
        ];
        assert_eq!(lines(&parsed.lock), expected);
        assert_eq!(parsed.lock.requires_python.as_deref(), Some("^3.9"));
        assert!(parsed.lock.packages[1].hashes.len() == 2 && parsed.lock.packages[2].hashes.is_empty());
        // The same without what format 2.1 added.
        let is_new = |line: &&str| line.starts_with("groups = ") || line.starts_with("markers = ");
        let old: Vec<&str> = LOCK.lines().filter(|line| !is_new(line)).collect();
        let old = PoetryLock::parse(old.join("\n").as_bytes(), MANIFEST.as_bytes()).unwrap();
        assert_eq!(lines(&old.lock).join("\n").replace('\'', "\""), expected.join("\n"));
    }

    #[test]
    fn sources_become_what_they_name() {
        let lock = |source: &str| {
            let text = format!(
                "[[package]]\nname = 'a'\nversion = '1'\noptional = false\ngroups = ['main']\nfiles = []\n{source}\n\
                 [metadata]\nlock-version = '2.1'\n"
            );
            PoetryLock::parse(text.as_bytes(), b"").map(|parsed| parsed.lock)
        };
        let source = |kind: &str, rest: &str| lock(&format!("[package.source]\ntype = '{kind}'\n{rest}"));
        let index = source("legacy", "url = 'https://own.example/simple'").unwrap();
        assert_eq!(index.packages[0].source, LockedSource::Index(Some("https://own.example/simple".into())));
        for (kind, rest, line) in [
            (
                "git",
                "url = 'git@h:o/r.git'\nresolved_reference = 'c0'\nsubdirectory = 'd'",
                "a @ git+ssh://git@h/o/r.git@c0#subdirectory=d",
            ),
            ("url", "url = 'https://h/a.zip'", "a @ https://h/a.zip"),
            ("file", "url = 'vendor/a.whl'", "a @ file:///m/vendor/a.whl"),
            ("directory", "url = 'libs/a'", "a @ file:///m/libs/a"),
        ] {
            assert_eq!(source(kind, rest).unwrap().packages[0].line("/m"), line);
        }
        assert!(source("moon", "").is_err() && source("directory", "url = '../a'").is_err());
        assert!(PoetryLock::parse(b"[metadata]\nlock-version = '3.0'", b"").is_err());
    }
}
