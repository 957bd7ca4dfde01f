//! Node packages: `package.json`, with a lock or without.

use stead_bundles::manifest::{PackageJson, PackageLock};
use stead_domain::build::Stage;
use stead_domain::source::SourceEntry;

use super::step::{Draft, PackageList};
use super::{NODE_MODULES, PlanError, Planner};
use crate::environment::installer_env;
use crate::toolchain::{NODE, NPM};

const MANIFEST: &str = "package.json";
/// npm takes the first of these that exists.
const LOCKS: [&str; 2] = ["npm-shrinkwrap.json", "package-lock.json"];
const FOREIGN_LOCKS: [&str; 4] = ["yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb"];

impl Planner<'_> {
    pub(super) fn plan_node(&mut self) -> Result<(), PlanError> {
        let Some(manifest) = self.sources.file(MANIFEST) else { return Ok(()) };
        let package = PackageJson::parse(&self.sources.read(manifest)?)
            .map_err(|source| PlanError::manifest(MANIFEST, source))?;
        let node = self.toolchain.node.as_ref().ok_or_else(|| Self::missing(MANIFEST, "Node"))?;
        let npm = node.npm.as_ref().ok_or_else(|| Self::missing(MANIFEST, "npm"))?;

        // npm builds the root itself when there is a binding.gyp, as if it had an install script.
        let mut whole = package.needs_whole_source || self.sources.file("binding.gyp").is_some();
        let mut files: Vec<SourceEntry> = vec![manifest.clone()];
        files.extend(self.sources.file(".npmrc").cloned());
        files.extend(package.local_archives.iter().filter_map(|path| self.sources.file(path).cloned()));
        let lock = LOCKS.iter().find_map(|name| self.sources.file(name));
        if let Some(lock) = lock {
            let parsed = PackageLock::parse(&self.sources.read(lock)?)
                .map_err(|source| PlanError::manifest(&lock.path, source))?;
            whole |= parsed.has_local_packages;
            files.push(lock.clone());
        } else if let Some(foreign) = FOREIGN_LOCKS.iter().find(|name| self.sources.file(name).is_some()) {
            self.log.push(format!("{foreign} is not used: only npm's own lock is, and there is none"));
        }
        let (verb, name) = match lock {
            // The lock is named, so that a failure says which file does not fit.
            Some(lock) => ("ci", format!("npm ci ({})", lock.path)),
            None => ("install", "npm install (package.json)".to_owned()),
        };
        if whole {
            self.log.push(format!(
                "{MANIFEST}: local packages or install scripts, so every change of the source installs anew"
            ));
        }
        let installer = format!("npm {npm}");
        let env = installer_env(self.settings);
        // Node by path: the script's own first line would take whatever a PATH names.
        let commands = vec![self.command(&env, [NODE, NPM, verb])];
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        self.push(Draft {
            stage: Stage::NodePackages,
            name,
            installer,
            files: (!whole).then_some(files),
            replaced: Vec::new(),
            // Workspaces, local packages and install scripts write beside node_modules: built files, nested node_modules.
            keep: if whole { "" } else { NODE_MODULES },
            lower: Vec::new(),
            commands,
            packages: vec![PackageList::Npm],
            pinned: lock.is_some(),
        });
        Ok(())
    }
}
