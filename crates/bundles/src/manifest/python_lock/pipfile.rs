//! `Pipfile.lock`, and `Pipfile` where it has none.

use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use super::PythonLock;
use super::canonical_json::{Spacing, sha256, written};
use super::error::LockError;
use super::requirement::{LockedRequirement, LockedSource, local_path};
use crate::manifest::text::decode;

/// What Pipenv calls the public index: packages of it come from the index that the server is told to use.
const USUAL_INDEX: &str = "pypi";
const MARKERS: [&str; 6] =
    ["sys_platform", "os_name", "platform_machine", "platform_system", "python_version", "python_full_version"];

/// A parsed `Pipfile.lock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipfileLock {
    /// What its `default` section comes to.
    pub lock: PythonLock,
    /// The hash of the `Pipfile` that it was made from.
    hash: Option<String>,
}

impl PipfileLock {
    /// Parses the file's bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, LockError> {
        let text = decode(bytes).map_err(LockError::Text)?;
        let root: Json = serde_json::from_str(text).map_err(|error| LockError::Syntax(error.to_string()))?;
        let meta = &root["_meta"];
        if meta["pipfile-spec"].as_u64() != Some(6) {
            return Err(LockError::Unsupported(format!("pipfile-spec {}", meta["pipfile-spec"])));
        }
        let indexes = Indexes::new(
            meta["sources"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|source| Some((source["name"].as_str()?, source["url"].as_str()?))),
        );
        let mut lock = PythonLock::default();
        for (name, entry) in root["default"].as_object().into_iter().flatten() {
            let entry = entry.as_object().ok_or_else(|| LockError::package(name, "it is no object"))?;
            add(&mut lock, requirement(name, entry, &indexes)?);
        }
        let hash = meta["hash"]["sha256"].as_str().map(str::to_owned);
        let requires =
            ["python_full_version", "python_version"].into_iter().find_map(|key| meta["requires"][key].as_str());
        lock.requires_python =
            requires.map(|version| format!("=={version}{}", if version.matches('.').count() < 2 { ".*" } else { "" }));
        Ok(Self { lock: lock.sorted(), hash })
    }

    /// Compares with the `Pipfile` as it is now, by the hash that Pipenv keeps.
    pub fn fits(&self, pipfile: &[u8]) -> Result<(), LockError> {
        let table = parsed(pipfile)?;
        match (pipfile_hash(&table), &self.hash) {
            (Some(now), Some(then)) if now != *then => Err(LockError::Stale {
                manifest: "Pipfile".to_owned(),
                reason: "the Pipfile has changed since".to_owned(),
                command: "pipenv lock",
            }),
            _ => Ok(()),
        }
    }
}

/// What the `packages` section of a `Pipfile` asks for, where no lock says which versions that comes to.
pub fn pipfile_requirements(bytes: &[u8]) -> Result<PythonLock, LockError> {
    let table = parsed(bytes)?;
    let sources = table.get("source").and_then(Value::as_array).into_iter().flatten();
    let indexes =
        Indexes::new(sources.filter_map(|source| Some((source.get("name")?.as_str()?, source.get("url")?.as_str()?))));
    let mut lock = PythonLock::default();
    for (name, value) in table.get("packages").and_then(Value::as_table).into_iter().flatten() {
        let entry = match value {
            Value::String(version) => Map::from_iter([("version".to_owned(), Json::from(version.as_str()))]),
            value => match serde_json::to_value(value) {
                Ok(Json::Object(entry)) => entry,
                _ => return Err(LockError::package(name, "it is neither a version nor a table")),
            },
        };
        add(&mut lock, requirement(name, &entry, &indexes)?);
    }
    Ok(lock.sorted())
}

fn add(lock: &mut PythonLock, requirement: LockedRequirement) {
    match &requirement.source {
        LockedSource::Directory(path) if path.is_empty() => lock.installs_root = true,
        _ => lock.packages.push(requirement),
    }
}

struct Indexes(Vec<(String, String)>);

impl Indexes {
    fn new<'a>(sources: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        Self(sources.map(|(name, url)| (name.to_owned(), url.to_owned())).collect())
    }

    /// Packages without an index are of the first.
    fn of(&self, name: Option<&str>) -> Option<String> {
        let found = match name {
            Some(name) => self.0.iter().find(|(known, _)| known == name),
            None => self.0.first(),
        };
        found.filter(|(name, _)| name != USUAL_INDEX).map(|(_, url)| url.clone())
    }
}

fn requirement(name: &str, entry: &Map<String, Json>, indexes: &Indexes) -> Result<LockedRequirement, LockError> {
    let text = |key: &str| entry.get(key).and_then(Json::as_str);
    let list = |key: &str| entry.get(key).and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
    let subdirectory = text("subdirectory").map(str::to_owned);
    let mut specifier = text("version").filter(|version| *version != "*").unwrap_or_default().to_owned();
    if specifier.starts_with(|c: char| c.is_ascii_digit()) {
        specifier = format!("=={specifier}");
    }
    let source = if let Some(url) = text("git") {
        let commit = text("ref").unwrap_or("HEAD").to_owned();
        LockedSource::Git { url: super::poetry::git_address(url), commit, subdirectory }
    } else if let Some(path) = text("path").or_else(|| text("file").filter(|file| !file.contains("://"))) {
        let path = local_path(name, "", path)?;
        let is_archive = [".whl", ".zip", ".gz", ".tgz", ".bz2", ".xz"].iter().any(|suffix| path.ends_with(suffix));
        if is_archive { LockedSource::Archive(path) } else { LockedSource::Directory(path) }
    } else if let Some(url) = text("file") {
        LockedSource::Url { url: url.to_owned(), subdirectory }
    } else if ["hg", "svn", "bzr"].into_iter().any(|key| entry.contains_key(key)) {
        return Err(LockError::package(name, "its version control is not supported"));
    } else {
        LockedSource::Index(indexes.of(text("index")))
    };
    let extras: Vec<&str> = list("extras").collect();
    let is_extra = |extra: &&str| extra.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if !extras.iter().all(is_extra) {
        return Err(LockError::package(name, "its extras are not understood"));
    }
    let mut hashes: Vec<String> = list("hashes").map(str::to_owned).collect();
    if matches!(source, LockedSource::Directory(_)) {
        hashes.clear();
    }
    if !matches!(source, LockedSource::Index(_)) {
        specifier.clear();
    }
    hashes.sort_unstable();
    // A `Pipfile` may also name parts of a marker one by one.
    let parts = MARKERS.iter().filter_map(|key| Some(format!("{key} {}", text(key)?)));
    let parts: Vec<String> = text("markers").map(str::to_owned).into_iter().chain(parts).collect();
    let marker = match parts.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        _ => Some(parts.iter().map(|part| format!("({part})")).collect::<Vec<_>>().join(" and ")),
    };
    let mut one = LockedRequirement { name: name.to_owned(), specifier, marker, hashes, source }.checked()?;
    if !extras.is_empty() {
        one.name = format!("{name}[{}]", extras.join(","));
    }
    Ok(one)
}

fn parsed(bytes: &[u8]) -> Result<Table, LockError> {
    let text = decode(bytes).map_err(LockError::Text)?;
    text.parse().map_err(|error: toml::de::Error| LockError::Syntax(error.message().to_owned()))
}

/// Pipenv hashes what the `Pipfile` means. None where it says so little that Pipenv would add something of its own.
fn pipfile_hash(pipfile: &Table) -> Option<String> {
    let section = |key: &str| pipfile.get(key).cloned().unwrap_or_else(|| Value::Table(Table::new()));
    let mut meta = Table::new();
    meta.insert("sources".to_owned(), pipfile.get("source")?.clone());
    meta.insert("requires".to_owned(), section("requires"));
    let mut all = Table::new();
    all.insert("_meta".to_owned(), Value::Table(meta));
    all.insert("default".to_owned(), section("packages"));
    all.insert("develop".to_owned(), section("dev-packages"));
    let known =
        ["source", "packages", "dev-packages", "requires", "scripts", "pipfile", "pipenv", "default", "develop"];
    for (category, packages) in pipfile.iter().filter(|(category, _)| !known.contains(&category.as_str())) {
        all.insert(category.clone(), packages.clone());
    }
    Some(sha256(&written(&all, Spacing::Tight)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &[u8] = include_bytes!("../../../tests/locks/Pipfile.lock");
    const PIPFILE: &str = include_str!("../../../tests/locks/Pipfile");

    #[test]
    fn a_lock_comes_to_its_default_section_and_fits_its_pipfile() {
        let parsed = PipfileLock::parse(LOCK).unwrap();
        let lines: Vec<String> =
            parsed.lock.packages.iter().map(|one| one.line("/m").split(" --hash").next().unwrap().to_owned()).collect();
        assert_eq!(
            lines,
            [
                "click ; sys_platform == 'win32'",
                "iniconfig==2.0.0 ; python_version >= '3.7'",
                "own @ file:///m/libs/own",
                "packaging==26.4 ; python_version >= '3.10'",
            ]
        );
        assert!(!parsed.lock.packages[0].is_pinned() && parsed.lock.packages[1].hashes.len() == 2);
        assert_eq!(parsed.lock.requires_python.as_deref(), Some("==3.11.*"));
        assert_eq!(parsed.fits(PIPFILE.as_bytes()), Ok(()));
        assert_eq!(parsed.fits(format!("# more\n{PIPFILE}").as_bytes()), Ok(()));
        let error = parsed.fits(PIPFILE.replace("2.0.0", "2.1.0").as_bytes()).unwrap_err().to_string();
        assert!(error.contains("does not fit Pipfile") && error.contains("pipenv lock"), "{error}");
    }

    #[test]
    fn indexes_repositories_and_files_are_told_apart() {
        let lock = |entry: &str| {
            let text = format!(
                r#"{{"_meta":{{"pipfile-spec":6,"sources":[{{"name":"own","url":"https://own.example/simple"}},
                {{"name":"pypi","url":"https://usual.example/simple"}}]}},"default":{{"a":{entry}}}}}"#
            );
            PipfileLock::parse(text.as_bytes()).map(|parsed| parsed.lock)
        };
        let own = LockedSource::Index(Some("https://own.example/simple".into()));
        assert_eq!(lock(r#"{"version":"==1"}"#).unwrap().packages[0].source, own);
        assert_eq!(lock(r#"{"version":"==1","index":"pypi"}"#).unwrap().packages[0].source, LockedSource::Index(None));
        for (entry, line) in [
            (r#"{"version":"==1","extras":["x","y"],"index":"pypi"}"#, "a[x,y]==1"),
            (r#"{"git":"git@h:o/r.git","ref":"c0ffee"}"#, "a @ git+ssh://git@h/o/r.git@c0ffee"),
            (r#"{"file":"https://h/a.zip"}"#, "a @ https://h/a.zip"),
            (r#"{"path":"./vendor/a.whl"}"#, "a @ file:///m/vendor/a.whl"),
        ] {
            assert_eq!(lock(entry).unwrap().packages[0].line("/m"), line);
        }
        assert!(lock(r#"{"path":".","editable":true}"#).unwrap().installs_root);
        for entry in ["[]", r#"{"hg":"https://h/r"}"#, r#"{"path":"../x"}"#, r#"{"extras":["] -r x ["]}"#] {
            assert!(lock(entry).unwrap_err().to_string().contains("`a`"), "{entry}");
        }
        let bare = pipfile_requirements(b"[packages]\na = '*'\nb = {version = '>=1', markers = \"x == '1'\"}\nc = '~=2.0'\nd = {version = '*', os_name = \"== 'nt'\"}").unwrap();
        let lines: Vec<String> = bare.packages.iter().map(|one| one.line("/m")).collect();
        assert_eq!(lines, ["a", "b>=1 ; x == '1'", "c~=2.0", "d ; os_name == 'nt'"]);
    }
}
