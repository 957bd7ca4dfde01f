//! `package.json`: what npm will install, run and read because of it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::pnpm_lock::{self, beneath};
use super::text::{TextError, decode};

/// Scripts that the managers run for the root project, and for packages of its workspace, during an install.
const LIFECYCLE: [&str; 11] = [
    "pnpm:devPreinstall",
    "preinstall",
    "install",
    "postinstall",
    "prepublish",
    "preprepare",
    "prepare",
    "postprepare",
    // npm, when the install changed something.
    "predependencies",
    "dependencies",
    "postdependencies",
];
const DEPENDENCY_FIELDS: [&str; 4] = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];

/// A parsed `package.json`. Fields of the wrong type count as absent; npm will say so better.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageJson {
    /// `name`.
    pub name: Option<String>,
    /// `version`.
    pub version: Option<String>,
    /// `dependencies`: name to specifier.
    pub dependencies: BTreeMap<String, String>,
    /// `devDependencies`.
    pub dev_dependencies: BTreeMap<String, String>,
    /// `optionalDependencies`.
    pub optional_dependencies: BTreeMap<String, String>,
    /// Names in `scripts` that an install runs.
    pub lifecycle_scripts: Vec<String>,
    /// `workspaces`, in either of its two shapes.
    pub workspaces: Vec<String>,
    /// Command names in `bin`.
    pub commands: Vec<String>,
    /// The files that `bin` names, as written: an installer links them and makes them executable where they exist.
    pub programs: Vec<String>,
    /// The manager that `packageManager` names, or else `devEngines`, with its version where one is given.
    pub package_manager: Option<(String, Option<String>)>,
    /// Whether it has `resolutions`, which change what Yarn's lock answers.
    pub forces_versions: bool,
    /// Patches in the source that pnpm applies, relative to the root.
    pub patches: Vec<String>,
    /// Package archives in the source that a dependency names, relative to the root.
    pub local_archives: Vec<String>,
    /// Whether an install reads other `package.json` files of the source: workspaces, and dependencies that are links.
    pub reads_members: bool,
    /// Whether an install needs the whole source: a directory as a dependency that is packed, lifecycle scripts of the
    /// root, or a path that leaves the root.
    pub needs_whole_source: bool,
}

/// Why a `package.json` or a lock cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackageJsonError {
    /// Its bytes are no text.
    #[error("the file is unreadable")]
    Text(#[source] TextError),
    /// It is not JSON; the text names the place.
    #[error("the file is not valid JSON: {0}")]
    Syntax(String),
    /// It is JSON, but no object.
    #[error("the file is not a JSON object")]
    NotAnObject,
}

impl PackageJson {
    /// Parses the file's bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, PackageJsonError> {
        let root = object(bytes)?;
        let mut parsed = Self {
            name: string(&root, "name"),
            version: string(&root, "version"),
            dependencies: specifiers(&root, "dependencies"),
            dev_dependencies: specifiers(&root, "devDependencies"),
            optional_dependencies: specifiers(&root, "optionalDependencies"),
            workspaces: workspaces(root.get("workspaces")),
            commands: commands(&root),
            programs: programs(root.get("bin")),
            package_manager: package_manager(&root),
            forces_versions: root.contains_key("resolutions"),
            ..Self::default()
        };
        if let Some(Value::Object(scripts)) = root.get("scripts") {
            let runs = |name: &&&str| scripts.get(**name).is_some_and(Value::is_string);
            parsed.lifecycle_scripts = LIFECYCLE.iter().filter(runs).map(|name| (*name).to_owned()).collect();
        }
        // A directory of programs is whatever lies in it.
        let lists_programs = root.get("directories").is_some_and(|directories| directories.get("bin").is_some());
        parsed.needs_whole_source = !parsed.lifecycle_scripts.is_empty() || lists_programs;
        // pnpm copies such a package of the workspace.
        let is_injected = |meta: &Value| meta.get("injected").and_then(Value::as_bool).unwrap_or(false);
        if let Some(Value::Object(metas)) = root.get("dependenciesMeta") {
            parsed.needs_whole_source |= metas.values().any(is_injected);
        }
        parsed.reads_members = !parsed.workspaces.is_empty();
        for field in DEPENDENCY_FIELDS {
            for specifier in specifiers(&root, field).values() {
                parsed.follow(specifier);
            }
        }
        // Overrides may point anywhere at any depth; a scan of their text is enough to err on the safe side.
        let pnpm = root.get("pnpm");
        let overrides = [root.get("overrides"), root.get("resolutions"), pnpm.and_then(|pnpm| pnpm.get("overrides"))];
        let local = ["file:", "portal:", "patch:", "exec:"];
        let points =
            |text: &str| local.iter().any(|protocol| text.contains(protocol) && !text.contains(".yarn/patches/"));
        parsed.needs_whole_source |= overrides.into_iter().flatten().any(|value| points(&value.to_string()));
        if let Some(Value::Object(pnpm)) = pnpm {
            parsed.needs_whole_source |= pnpm_lock::add_patches(pnpm, &mut parsed.patches);
        }
        Ok(parsed)
    }

    fn follow(&mut self, specifier: &str) {
        // Links to places, whose content is no part of what is installed.
        if ["link:", "portal:", "workspace:"].iter().any(|prefix| specifier.starts_with(prefix)) {
            self.reads_members = true;
            return;
        }
        let path = match specifier.strip_prefix("file:") {
            Some(path) => path,
            None if ["./", "../", "/", "~/"].iter().any(|prefix| specifier.starts_with(prefix)) => specifier,
            None if specifier.starts_with("exec:") => {
                self.needs_whole_source = true;
                return;
            }
            None => return,
        };
        match beneath(path).filter(|path| is_archive(path)) {
            Some(path) => self.local_archives.push(path),
            None => self.needs_whole_source = true,
        }
    }
}

/// Whether a path is that of a package's archive.
pub(super) fn is_archive(path: &str) -> bool {
    [".tgz", ".tar.gz", ".tar"].iter().any(|suffix| path.ends_with(suffix))
}

/// Decodes bytes to a JSON object.
pub(super) fn object(bytes: &[u8]) -> Result<Map<String, Value>, PackageJsonError> {
    let text = decode(bytes).map_err(PackageJsonError::Text)?;
    match serde_json::from_str(text).map_err(|error| PackageJsonError::Syntax(error.to_string()))? {
        Value::Object(root) => Ok(root),
        _ => Err(PackageJsonError::NotAnObject),
    }
}

pub(super) fn string(object: &Map<String, Value>, key: &str) -> Option<String> {
    object.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn specifiers(root: &Map<String, Value>, field: &str) -> BTreeMap<String, String> {
    let Some(Value::Object(entries)) = root.get(field) else { return BTreeMap::new() };
    entries.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

fn workspaces(value: Option<&Value>) -> Vec<String> {
    let list = match value {
        Some(Value::Object(object)) => object.get("packages"),
        other => other,
    };
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// `bin` is a map, or a path for a command named as the package without its scope.
fn commands(root: &Map<String, Value>) -> Vec<String> {
    match root.get("bin") {
        Some(Value::Object(bin)) => bin.keys().cloned().collect(),
        Some(Value::String(_)) => string(root, "name")
            .map(|name| name.rsplit('/').next().unwrap_or_default().to_owned())
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

fn programs(bin: Option<&Value>) -> Vec<String> {
    match bin {
        Some(Value::Object(bin)) => bin.values().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(path)) => vec![path.clone()],
        _ => Vec::new(),
    }
}

/// `packageManager` is `name@version+hash`.
fn package_manager(root: &Map<String, Value>) -> Option<(String, Option<String>)> {
    if let Some(named) = string(root, "packageManager") {
        let (name, version) = named.split_once('@').unwrap_or((&named, ""));
        let version = version.split('+').next().unwrap_or_default();
        return Some((name.to_owned(), (!version.is_empty()).then(|| version.to_owned())));
    }
    let Some(Value::Object(manager)) = root.get("devEngines").and_then(|engines| engines.get("packageManager")) else {
        return None;
    };
    Some((string(manager, "name")?, string(manager, "version")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> PackageJson {
        PackageJson::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn local_things_need_the_source_and_archives_only_themselves() {
        let plain = parse(r#"{"name":"@s/a","bin":"x.js","dependencies":{"b":"^1"},"scripts":{"test":"t"}}"#);
        assert!(!plain.needs_whole_source && plain.local_archives.is_empty());
        assert_eq!(plain.commands, ["a"]);
        let archive = parse(r#"{"dependencies":{"b":"file:./vendor/b.tgz"}}"#);
        assert_eq!((archive.local_archives, archive.needs_whole_source), (vec!["vendor/b.tgz".to_owned()], false));
        for text in [
            r#"{"dependencies":{"b":"file:vendor/b"}}"#,
            r#"{"devDependencies":{"b":"file:../b.tgz"}}"#,
            r#"{"dependencies":{"b":"exec:./b.js"}}"#,
            r#"{"scripts":{"postinstall":"x"}}"#,
            r#"{"scripts":{"postdependencies":"x"}}"#,
            r#"{"dependenciesMeta":{"b":{"built":false},"c":{"injected":true}}}"#,
            r#"{"overrides":{"a":{"b":"file:b"}}}"#,
            r#"{"resolutions":{"a":"patch:a@1#./a.patch"}}"#,
            r#"{"pnpm":{"patchedDependencies":{"a":"../a.patch"}}}"#,
            r#"{"directories":{"bin":"tools"}}"#,
        ] {
            assert!(parse(text).needs_whole_source, "{text}");
        }
        for text in [
            r#"{"optionalDependencies":{"b":"link:b"}}"#,
            r#"{"dependencies":{"b":"workspace:*"}}"#,
            r#"{"workspaces":["packages/*"],"dependenciesMeta":{"b":{"injected":false}}}"#,
            r#"{"workspaces":{"packages":["p"]}}"#,
        ] {
            let parsed = parse(text);
            assert!(parsed.reads_members && !parsed.needs_whole_source, "{text}");
        }
    }

    #[test]
    fn the_manager_is_named_in_either_place() {
        let named = |text: &str| parse(text).package_manager;
        let pnpm = Some(("pnpm".to_owned(), Some("9.1.0".to_owned())));
        assert_eq!(named(r#"{"packageManager":"pnpm@9.1.0+sha512.abc"}"#), pnpm);
        assert_eq!(named(r#"{"devEngines":{"packageManager":{"name":"pnpm","version":"9.1.0"}}}"#), pnpm);
        assert_eq!(named(r#"{"packageManager":"yarn"}"#), Some(("yarn".to_owned(), None)));
        assert_eq!(named(r#"{"packageManager":3}"#), None);
    }

    #[test]
    fn odd_shapes_are_absent_and_non_objects_refused() {
        let odd = parse(r#"{"name":1,"dependencies":[],"scripts":"x","workspaces":3,"bin":false}"#);
        assert_eq!(odd, PackageJson::default());
        assert_eq!(PackageJson::parse(b"[]"), Err(PackageJsonError::NotAnObject));
        assert!(PackageJson::parse(b"{").unwrap_err().to_string().contains("line 1"));
    }
}
