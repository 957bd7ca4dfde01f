//! `pnpm-lock.yaml` and `pnpm-workspace.yaml`: what pnpm installs, and which files of the source it reads because of them.
//!
//! Whether a lock fits its manifests is pnpm's judgement and not repeated here.

use serde_json::{Map, Value};

use super::package_json::string;
use super::yaml::{self, YamlError};

/// A parsed `pnpm-lock.yaml`, of any version that names its packages by `packages`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PnpmLock {
    /// `lockfileVersion`: `6.0`, `9.0`.
    pub format: String,
    /// The directories of the workspace's packages, the root being `.`. None where the lock has no `importers`.
    pub members: Vec<String>,
    /// Package archives in the source, relative to the root.
    pub local_archives: Vec<String>,
    /// Patches in the source, relative to the root.
    pub patches: Vec<String>,
    /// How many of its packages no hash verifies, directories left out.
    pub unhashed: usize,
    /// Whether it copies a directory of the source, or reads what cannot be named beforehand.
    pub needs_whole_source: bool,
}

impl PnpmLock {
    /// Parses the file's bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, YamlError> {
        let root = yaml::mapping(bytes)?;
        let mut lock = Self { format: string(&root, "lockfileVersion").unwrap_or_default(), ..Self::default() };
        if let Some(Value::Object(importers)) = root.get("importers") {
            lock.members = importers.keys().cloned().collect();
        }
        lock.needs_whole_source |= add_patches(&root, &mut lock.patches);
        if let Some(Value::Object(packages)) = root.get("packages") {
            for package in packages.values() {
                lock.add(package.get("resolution"));
            }
        }
        Ok(lock)
    }

    fn add(&mut self, resolution: Option<&Value>) {
        let Some(Value::Object(resolution)) = resolution else { return };
        if resolution.contains_key("directory") {
            self.needs_whole_source = true;
            return;
        }
        if let Some(path) = string(resolution, "tarball").as_deref().and_then(|tarball| tarball.strip_prefix("file:")) {
            match beneath(path) {
                Some(path) => self.local_archives.push(path),
                None => self.needs_whole_source = true,
            }
        }
        // A commit is a hash of its own.
        if !resolution.contains_key("integrity") && !resolution.contains_key("commit") {
            self.unhashed += 1;
        }
    }
}

/// A parsed `pnpm-workspace.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PnpmWorkspace {
    /// `packages`: where its packages lie.
    pub packages: Vec<String>,
    /// Patches in the source, relative to the root.
    pub patches: Vec<String>,
    /// Whether it names code that runs during an install, or local packages.
    pub needs_whole_source: bool,
}

impl PnpmWorkspace {
    /// Parses the file's bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, YamlError> {
        let root = yaml::mapping(bytes)?;
        let list = root.get("packages").and_then(Value::as_array).into_iter().flatten();
        let mut workspace =
            Self { packages: list.filter_map(Value::as_str).map(str::to_owned).collect(), ..Self::default() };
        workspace.needs_whole_source |= add_patches(&root, &mut workspace.patches);
        // Hooks are code, these directories move what is to be kept, and an override may point anywhere.
        let moves =
            ["pnpmfile", "globalPnpmfile", "configDependencies", "modulesDir", "virtualStoreDir", "scriptShell"];
        workspace.needs_whole_source |= moves.iter().any(|key| root.contains_key(*key));
        let copies = root.get("injectWorkspacePackages").is_some_and(|value| value != &Value::Bool(false));
        workspace.needs_whole_source |= copies;
        workspace.needs_whole_source |= root.get("overrides").is_some_and(|value| value.to_string().contains("file:"));
        Ok(workspace)
    }
}

/// Adds the patches of a `patchedDependencies`; answers whether one of them cannot be named.
pub(super) fn add_patches(root: &Map<String, Value>, patches: &mut Vec<String>) -> bool {
    let Some(Value::Object(patched)) = root.get("patchedDependencies") else { return false };
    let mut unnamed = false;
    for patch in patched.values() {
        // A lock says hash and path, a manifest the path alone. A lock without paths leaves them to the manifest.
        let path = patch.get("path").and_then(Value::as_str).or_else(|| patch.as_str());
        match path.map(beneath) {
            Some(Some(path)) => patches.push(path),
            Some(None) => unnamed = true,
            None => {}
        }
    }
    unnamed
}

/// A path that stays beneath the root, without its `./`.
pub(super) fn beneath(path: &str) -> Option<String> {
    let path = path.strip_prefix("./").unwrap_or(path);
    let stays =
        !path.starts_with(['/', '~']) && !path.contains([':', '\\']) && path.split('/').all(|part| part != "..");
    (stays && !path.is_empty()).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lock_formats_name_what_pnpm_reads() {
        let six = "lockfileVersion: '6.0'\npatchedDependencies:\n  a@1.0.0:\n    hash: h\n    path: patches/a.patch\n\
            packages:\n  /a@1.0.0:\n    resolution: {integrity: sha512-x}\n  file:vendor/b.tgz:\n    \
            resolution: {integrity: sha512-y, tarball: file:vendor/b.tgz}\n    name: b\n";
        let six = PnpmLock::parse(six.as_bytes()).unwrap();
        assert_eq!((six.format.as_str(), six.needs_whole_source, six.unhashed), ("6.0", false, 0));
        assert_eq!((six.local_archives, six.patches), (vec!["vendor/b.tgz".into()], vec!["patches/a.patch".into()]));
        let nine = "lockfileVersion: '9.0'\nimporters:\n  .: {}\n  packages/a:\n    dependencies:\n      b:\n        \
            specifier: workspace:*\n        version: link:../b\npackages:\n  c@1.0.0:\n    resolution: {tarball: x}\n";
        let nine = PnpmLock::parse(nine.as_bytes()).unwrap();
        assert_eq!(
            (nine.members.join(" ").as_str(), nine.needs_whole_source, nine.unhashed),
            (". packages/a", false, 1)
        );
        for text in [
            "packages:\n  d@file:d:\n    resolution: {directory: d, type: directory}\n",
            "packages:\n  d@1:\n    resolution: {integrity: x, tarball: 'file:../d.tgz'}\n",
            "patchedDependencies:\n  a: ../a.patch\n",
        ] {
            assert!(PnpmLock::parse(text.as_bytes()).unwrap().needs_whole_source, "{text}");
        }
    }

    #[test]
    fn a_workspace_file_says_where_packages_lie_and_what_runs() {
        let plain =
            b"packages:\n  - 'packages/*'\nonlyBuiltDependencies: [esbuild]\npatchedDependencies:\n  a: ./p/a.patch\n";
        let plain = PnpmWorkspace::parse(plain).unwrap();
        assert_eq!((plain.packages, plain.patches), (vec!["packages/*".to_owned()], vec!["p/a.patch".to_owned()]));
        assert!(!plain.needs_whole_source);
        for text in [
            "injectWorkspacePackages: true\n",
            "pnpmfile: hooks.cjs\n",
            "overrides:\n  a: 'file:a'\n",
            "configDependencies:\n  c: 1+sha\n",
        ] {
            assert!(PnpmWorkspace::parse(text.as_bytes()).unwrap().needs_whole_source, "{text}");
        }
    }
}
