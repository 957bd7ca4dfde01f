//! Classic Yarn takes a lock for complete that fits the root alone: what other packages of a workspace want is then installed
//! without being locked. That is found here instead.

use std::collections::BTreeSet;

use stead_bundles::manifest::{PackageJson, YarnLock, names_member};

use super::super::{PlanError, Planner};
use super::MANIFEST;

/// A lock that lacks what a package of the workspace wants.
#[derive(Debug, thiserror::Error)]
#[error("it does not name {wanted}, which {manifest} wants; run `yarn install`, and import the new lock")]
struct Stale {
    wanted: String,
    manifest: String,
}

impl Planner<'_> {
    /// Refuses a lock that does not fit. Where it cannot be told which packages belong to the workspace, nothing is refused.
    pub(super) fn check_members(&self, root: &PackageJson, name: &str, lock: &YarnLock) -> Result<(), PlanError> {
        if root.workspaces.is_empty() || root.forces_versions {
            return Ok(());
        }
        let mut members = Vec::new();
        for manifest in self.sources.named(MANIFEST) {
            let Some(directory) = manifest.path.as_str().strip_suffix("/package.json") else { continue };
            match names_member(&root.workspaces, directory) {
                None => return Ok(()),
                Some(false) => {}
                Some(true) => {
                    let package = PackageJson::parse(&self.sources.read(manifest)?)
                        .map_err(|source| PlanError::manifest(&manifest.path, source))?;
                    members.push((&manifest.path, package));
                }
            }
        }
        let own: BTreeSet<&str> = members.iter().filter_map(|(_, package)| package.name.as_deref()).collect();
        for (path, package) in &members {
            let maps = [&package.dependencies, &package.dev_dependencies, &package.optional_dependencies];
            for (dependency, range) in maps.into_iter().flatten() {
                let wanted = format!("{dependency}@{range}");
                let is_locked =
                    own.contains(dependency.as_str()) || range.is_empty() || lock.patterns.contains(&wanted);
                if !is_locked && !range.starts_with("link:") {
                    return Err(PlanError::manifest(name, Stale { wanted, manifest: path.to_string() }));
                }
            }
        }
        Ok(())
    }
}
