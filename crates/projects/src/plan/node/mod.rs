//! Node packages: `package.json`, with the lock of npm, pnpm or Yarn, or without.
//!
//! Which manager installs is decided in [`manager`], which files it reads in [`inputs`]; each manager's own files and commands are
//! in the module of its name.

mod inputs;
mod manager;
mod npm;
mod pnpm;
mod stale;
#[cfg(test)]
mod tests;
mod yarn;

use std::collections::BTreeMap;

use stead_bundles::manifest::PackageJson;
use stead_domain::SourcePath;
use stead_domain::build::Stage;

use super::step::{Draft, PackageList};
use super::{NODE_MODULES, PlanError, Planner};
use crate::toolchain::NODE;
use inputs::Inputs;
use manager::Manager;

const MANIFEST: &str = "package.json";

/// What one manager does.
struct Install {
    /// The step for people. A lock is named, so that a failure says which file does not fit.
    name: String,
    /// Manager and version.
    installer: String,
    /// The manager's script and its arguments.
    argv: Vec<String>,
    env: BTreeMap<String, String>,
    /// Files that it sees otherwise than the source has them.
    replaced: Vec<(SourcePath, Vec<u8>)>,
    pinned: bool,
}

impl Planner<'_> {
    pub(super) fn plan_node(&mut self) -> Result<(), PlanError> {
        let Some(manifest) = self.sources.file(MANIFEST) else { return Ok(()) };
        let package = PackageJson::parse(&self.sources.read(manifest)?)
            .map_err(|source| PlanError::manifest(MANIFEST, source))?;
        if self.toolchain.node.is_none() {
            return Err(Self::missing(MANIFEST, "Node"));
        }
        let choice = self.choose_manager(&package)?;
        let mut inputs = Inputs::new(manifest.clone());
        self.add_package(&mut inputs, "", &package);
        self.add_npmrc(&mut inputs)?;
        let install = match choice.manager {
            Manager::Npm => self.npm(&mut inputs, choice.lock)?,
            Manager::Pnpm => self.pnpm(&mut inputs, choice.lock)?,
            Manager::YarnClassic => self.yarn_classic(&mut inputs, &package, choice.lock)?,
            Manager::YarnBerry => self.yarn_berry(&mut inputs, choice.lock)?,
        };
        if inputs.reads_members {
            self.add_members(&mut inputs)?;
        }
        if inputs.whole {
            self.log.push(format!(
                "{MANIFEST}: local packages or install scripts, so every change of the source installs anew"
            ));
        }
        // Node by path: the script's own first line would take whatever a PATH names.
        let argv = std::iter::once(NODE.to_owned()).chain(install.argv);
        let commands = vec![self.command(&install.env, argv)];
        // Workspaces, local packages and install scripts write beside node_modules: built files, nested node_modules.
        let keep = if inputs.whole || inputs.reads_members || inputs.writes_beside { "" } else { NODE_MODULES };
        self.push(Draft {
            stage: Stage::NodePackages,
            name: install.name,
            installer: install.installer,
            files: inputs.into_files(),
            replaced: install.replaced,
            keep,
            lower: Vec::new(),
            commands,
            packages: vec![PackageList::Npm],
            pinned: install.pinned,
        });
        Ok(())
    }
}
