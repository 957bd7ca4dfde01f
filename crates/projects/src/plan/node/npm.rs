//! npm: `npm ci` with a lock, `npm install` without.

use stead_bundles::manifest::{PackageLock, Platform};
use stead_domain::source::SourceEntry;

use super::super::{PlanError, Planner};
use super::inputs::Inputs;
use super::{Install, MANIFEST};
use crate::environment::installer_env;
use crate::toolchain::NPM;

impl Planner<'_> {
    pub(super) fn npm(&mut self, inputs: &mut Inputs, lock: Option<&SourceEntry>) -> Result<Install, PlanError> {
        let npm = self.toolchain.node.as_ref().and_then(|node| node.npm.as_ref());
        let npm = npm.ok_or_else(|| Self::missing(MANIFEST, "npm"))?;
        inputs.add(lock);
        if let Some(lock) = lock {
            let parsed = PackageLock::parse(&self.sources.read(lock)?)
                .map_err(|source| PlanError::manifest(&lock.path, source))?;
            let tools = self.toolchain;
            let platform = Platform { architecture: &tools.architecture, glibc: tools.libc.starts_with("glibc") };
            if let Some(missing) = parsed.missing_variant(platform).filter(|_| !inputs.omits_optional) {
                return Err(PlanError::manifest(&lock.path, missing));
            }
            inputs.reads_members |= parsed.has_local_packages;
            inputs.members = (parsed.lockfile_version > 1).then(|| parsed.members.clone());
            let unhashed = parsed.packages.iter().filter(|package| !package.hashed).count();
            self.say_unhashed(lock, unhashed);
        }
        let (verb, name) = match lock {
            Some(lock) => ("ci", format!("npm ci ({})", lock.path)),
            None => ("install", format!("npm install ({MANIFEST})")),
        };
        Ok(Install {
            name,
            installer: format!("npm {npm}"),
            argv: vec![NPM.to_owned(), verb.to_owned()],
            env: installer_env(self.settings),
            replaced: Vec::new(),
            pinned: lock.is_some(),
        })
    }

    /// A lock without hashes takes whatever the registry gives for a version.
    pub(super) fn say_unhashed(&mut self, lock: &SourceEntry, count: usize) {
        if count > 0 {
            self.log.push(format!("{}: {count} of its packages have no integrity hash", lock.path));
        }
    }
}
