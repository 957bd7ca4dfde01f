//! `package-lock.json` and `npm-shrinkwrap.json`: what an `npm ci` puts on disk, for reports.
//!
//! Whether a lock fits its `package.json` is npm's judgement and not repeated here.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::package_json::{PackageJsonError, object, string};
use super::platform::{Platform, named_system};

/// One package of a lock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockedPackage {
    /// The package's name, scope included.
    pub name: String,
    /// Its version as locked.
    pub version: String,
    /// Whether it lies directly in the root's `node_modules`.
    pub top_level: bool,
    /// Whether its archive is verified by a hash.
    pub hashed: bool,
}

/// A parsed lock, in any of its three versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageLock {
    /// `lockfileVersion`; 1 when absent.
    pub lockfile_version: u64,
    /// Its packages, sorted, without links.
    pub packages: Vec<LockedPackage>,
    /// Whether it links a directory of the source.
    pub has_local_packages: bool,
    /// The directories of the source that it knows as packages; version 1 names none.
    pub members: Vec<String>,
    /// Each package that has optional dependencies, and their names.
    optional: Vec<(String, Vec<String>)>,
}

/// A package of a lock without its native part for a platform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "it was written on another platform: `{variant}`, which `{package}` needs here, is not in it; remove node_modules and the \
     lock, run `npm install`, and import the new lock"
)]
pub struct MissingVariant {
    /// The package.
    pub package: String,
    /// What it needs and the lock lacks.
    pub variant: String,
}

impl PackageLock {
    /// Parses the file's bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, PackageJsonError> {
        let root = object(bytes)?;
        let mut lock = Self {
            lockfile_version: root.get("lockfileVersion").and_then(Value::as_u64).unwrap_or(1),
            ..Self::default()
        };
        if let Some(Value::Object(packages)) = root.get("packages") {
            for (path, entry) in packages {
                lock.add_by_path(path, entry);
            }
        } else if let Some(Value::Object(dependencies)) = root.get("dependencies") {
            lock.add_nested(dependencies, true);
        }
        lock.packages.sort_unstable();
        lock.packages.dedup();
        Ok(lock)
    }

    /// The first package that names native variants for this platform of which the lock has none. npm installs such a lock
    /// without a word, and the package fails when it is loaded.
    /// A lock that has variants for several systems was not cut to one machine: what it lacks could not be had.
    pub fn missing_variant(&self, platform: Platform<'_>) -> Option<MissingVariant> {
        let locked: BTreeSet<&str> = self.packages.iter().map(|package| package.name.as_str()).collect();
        self.optional.iter().find_map(|(package, names)| {
            let mut needed = names.iter().filter(|name| platform.is_named_by(name)).peekable();
            let variant = (*needed.peek()?).clone();
            let has_one = needed.any(|name| locked.contains(name.as_str()));
            let others = names.iter().filter(|name| locked.contains(name.as_str()));
            let systems: BTreeSet<&str> = others.filter_map(|name| named_system(name)).collect();
            (!has_one && systems.len() < 2).then(|| MissingVariant { package: package.clone(), variant })
        })
    }

    /// Versions 2 and 3: keys are places on disk, the root's being empty.
    fn add_by_path(&mut self, path: &str, entry: &Value) {
        let Value::Object(entry) = entry else { return };
        if path.is_empty() {
            return;
        }
        let Some((before, name)) = path.rsplit_once("node_modules/") else {
            self.has_local_packages = true;
            self.members.push(path.to_owned());
            return;
        };
        if entry.get("link").and_then(Value::as_bool) == Some(true) {
            self.has_local_packages = true;
            return;
        }
        // An alias is installed under another name than the package's own.
        let name = string(entry, "name").unwrap_or_else(|| name.to_owned());
        if let Some(Value::Object(optional)) = entry.get("optionalDependencies")
            && is_installed(entry)
        {
            self.optional.push((name.clone(), optional.keys().cloned().collect()));
        }
        self.add(name, entry, before.is_empty());
    }

    /// Version 1: dependencies nest as they do on disk. The JSON parser has bounded the depth.
    fn add_nested(&mut self, dependencies: &Map<String, Value>, top_level: bool) {
        for (name, entry) in dependencies {
            let Value::Object(entry) = entry else { continue };
            if string(entry, "version").is_some_and(|version| version.starts_with("file:")) {
                self.has_local_packages = true;
            } else {
                self.add(name.clone(), entry, top_level);
            }
            if let Some(Value::Object(nested)) = entry.get("dependencies") {
                self.add_nested(nested, false);
            }
        }
    }

    fn add(&mut self, name: String, entry: &Map<String, Value>, top_level: bool) {
        let Some(version) = string(entry, "version") else { return };
        // One that came inside another is covered by that one's hash, and a commit is a hash of its own.
        let covered = entry.get("inBundle").or_else(|| entry.get("bundled")).and_then(Value::as_bool) == Some(true)
            || string(entry, "resolved").is_some_and(|resolved| resolved.starts_with("git"));
        let hashed = covered || entry.get("integrity").is_some_and(Value::is_string);
        self.packages.push(LockedPackage { name, version, top_level, hashed });
    }
}

/// Whether this system installs the package at all, as far as the lock tells: a package for another system needs nothing
/// here, and one that came inside another has with it whatever it needs.
fn is_installed(entry: &Map<String, Value>) -> bool {
    let bundled = entry.get("inBundle").and_then(Value::as_bool) == Some(true);
    let systems: Vec<&str> =
        entry.get("os").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let refused = systems.contains(&"!linux");
    let fits = systems.is_empty() || systems.contains(&"linux") || systems.iter().all(|system| system.starts_with('!'));
    !bundled && !refused && fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lock_versions_give_the_same_packages() {
        let old = r#"{"lockfileVersion":1,"dependencies":{"@s/a":{"version":"1.0.0","integrity":"sha512-x",
            "dependencies":{"b":{"version":"2.0.0"}}},"c":{"version":"file:c"}}}"#;
        let new = r#"{"lockfileVersion":3,"packages":{"":{"name":"r"},"node_modules/@s/a":{"version":"1.0.0",
            "integrity":"sha512-x"},"node_modules/@s/a/node_modules/b":{"version":"2.0.0"},
            "node_modules/c":{"resolved":"c","link":true},"c":{"version":"9.0.0"}}}"#;
        let old = PackageLock::parse(old.as_bytes()).unwrap();
        let new = PackageLock::parse(new.as_bytes()).unwrap();
        assert_eq!(old.packages, new.packages);
        assert!(old.has_local_packages && new.has_local_packages);
        assert_eq!((old.lockfile_version, new.lockfile_version), (1, 3));
        let places: Vec<_> = new.packages.iter().map(|p| (p.name.as_str(), p.top_level, p.hashed)).collect();
        assert_eq!(places, [("@s/a", true, true), ("b", false, false)]);
    }

    #[test]
    fn a_lock_from_elsewhere_is_told_by_the_variant_it_lacks() {
        let lock = |extra: &str, also: &str| {
            let text = format!(
                r#"{{"lockfileVersion":3,"packages":{{"node_modules/rollup":{{"version":"4.0.0",{also}"optionalDependencies":
                {{"@rollup/rollup-darwin-arm64":"4.0.0","@rollup/rollup-linux-x64-gnu":"4.0.0","@rollup/rollup-linux-x64-musl":"4.0.0",
                "fsevents":"~2"}}}},"node_modules/@rollup/rollup-{extra}":{{"version":"4.0.0","optional":true}}}}}}"#
            );
            PackageLock::parse(text.as_bytes()).unwrap()
        };
        let here = Platform { architecture: "x86_64", glibc: true };
        let missing = lock("darwin-arm64", "").missing_variant(here).unwrap();
        assert_eq!((missing.package.as_str(), missing.variant.as_str()), ("rollup", "@rollup/rollup-linux-x64-gnu"));
        assert!(missing.to_string().contains("another platform: `@rollup/rollup-linux-x64-gnu`"), "{missing}");
        assert!(lock("linux-x64-musl", "").missing_variant(here).is_some());
        let several = r#""lockfileVersion":3,"packages":{"node_modules/sass":{"version":"1.0.0","optionalDependencies":
            {"sass-linux-x64":"1","sass-darwin-x64":"1","sass-win32-x64":"1"}},"node_modules/sass-darwin-x64":{"version":"1"},
            "node_modules/sass-win32-x64":{"version":"1"}}"#;
        assert_eq!(PackageLock::parse(format!("{{{several}}}").as_bytes()).unwrap().missing_variant(here), None);
        assert_eq!(lock("linux-x64-gnu", "").missing_variant(here), None);
        assert_eq!(lock("linux-x64-musl", "").missing_variant(Platform { glibc: false, ..here }), None);
        // No variant for this machine exists, or the package itself is not for it.
        assert_eq!(lock("darwin-arm64", "").missing_variant(Platform { architecture: "aarch64", glibc: true }), None);
        assert_eq!(lock("darwin-arm64", r#""os":["darwin"],"#).missing_variant(here), None);
        assert_eq!(lock("darwin-arm64", r#""inBundle":true,"#).missing_variant(here), None);
    }
}
