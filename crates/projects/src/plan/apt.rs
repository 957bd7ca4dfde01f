//! System packages: resolved by apt against what this machine has, and unpacked into `apt` inside the version.
//!
//! The machine itself stays untouched, and no maintainer script runs. The step gets a copy of what apt knows here (sources,
//! preferences, keys, installed packages: [`crate::system_packages`]), whose identity is part of its key.

use stead_domain::build::Stage;
use stead_domain::declared::{PackageManager, PackageSpec};

use super::declared::named;
use super::step::{Draft, PackageList};
use super::{APT, PlanError, Planner};
use crate::environment::installer_env;
use crate::system_packages;
use crate::toolchain::BASH;

/// What a failure names.
const LIST: &str = "packages.apt";
/// Resolves, fetches, checks and unpacks.
const INSTALL: &str = include_str!("../scripts/install_apt.sh");
/// Prints name and version of each package that was unpacked, from its own description.
const REPORT: &str = "cat /tmp/stead-apt/unpacked";

impl Planner<'_> {
    pub(super) fn plan_apt(&mut self) -> Result<(), PlanError> {
        let declared = &self.settings.declared;
        if declared.apt.is_empty() {
            return Ok(());
        }
        let version = self.toolchain.apt.as_ref().ok_or_else(|| Self::missing(LIST, "apt"))?;
        if let Some(file) = self.sources.file(APT) {
            return Err(PlanError::Occupied { path: file.path.to_string() });
        }
        if self.sources.beneath(APT).next().is_some() {
            self.log.push(format!("WARNING: the source has a directory `{APT}`, which the system packages hide"));
        }
        let env = installer_env(self.settings);
        let argv = [BASH, "-c", INSTALL, "apt"].into_iter().chain(declared.apt.iter().map(PackageSpec::as_str));
        let commands = vec![self.command(&env, argv)];
        let state = system_packages::digest();
        self.push(Draft {
            stage: Stage::SystemPackages,
            name: format!("apt install {}", named(declared, PackageManager::Apt)),
            installer: format!("apt {version}, sources and installed packages {}", &state[..12]),
            files: Some(Vec::new()),
            replaced: Vec::new(),
            keep: APT,
            lower: Vec::new(),
            commands,
            packages: vec![PackageList::Apt(self.command(&env, [BASH, "-c", REPORT]))],
            // A package that names its version still brings dependencies that do not.
            pinned: false,
        });
        Ok(())
    }
}
