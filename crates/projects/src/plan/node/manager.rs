//! Which manager installs a project's Node packages.
//!
//! `packageManager` (or `devEngines.packageManager`) decides; otherwise the first lock there is: npm's, pnpm's, Yarn's. A lock
//! whose manager is missing fails the build rather than being passed over, and locks that lose are named in the log.

use stead_bundles::manifest::{PackageJson, YarnLock};
use stead_domain::source::SourceEntry;

use super::super::{PlanError, Planner};
use super::MANIFEST;

/// npm takes the first of these that exists.
const NPM_LOCKS: [&str; 2] = ["npm-shrinkwrap.json", "package-lock.json"];
const PNPM_LOCK: &str = "pnpm-lock.yaml";
const YARN_LOCK: &str = "yarn.lock";
const BUN_LOCKS: [&str; 2] = ["bun.lock", "bun.lockb"];
const NAME_ANOTHER: &str = "let `packageManager` in it name npm, pnpm or yarn";
const REMOVE: &str = "remove it, or let `packageManager` in package.json name npm, pnpm or yarn";

/// A manager of Node packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manager {
    Npm,
    Pnpm,
    /// Yarn 1.
    YarnClassic,
    /// Yarn 2 and later.
    YarnBerry,
}

/// The manager, and its lock if the project has it.
pub(super) struct Choice<'a> {
    pub(super) manager: Manager,
    pub(super) lock: Option<&'a SourceEntry>,
}

impl<'a> Planner<'a> {
    pub(super) fn choose_manager(&mut self, package: &PackageJson) -> Result<Choice<'a>, PlanError> {
        let npm = NPM_LOCKS.iter().find_map(|name| self.sources.file(name));
        let pnpm = self.sources.file(PNPM_LOCK);
        let yarn = self.sources.file(YARN_LOCK);
        let bun = BUN_LOCKS.iter().find_map(|name| self.sources.file(name));
        let named = package.package_manager.as_ref();
        let name = named.map(|(name, _)| name.as_str()).filter(|name| ["npm", "pnpm", "yarn", "bun"].contains(name));
        let (manager, lock) = match name {
            Some("npm") => (Manager::Npm, npm),
            Some("pnpm") => (Manager::Pnpm, pnpm),
            Some("yarn") => (self.which_yarn(yarn, named.and_then(|(_, version)| version.as_deref()))?, yarn),
            Some(_) => return Err(PlanError::Bun { file: MANIFEST.to_owned(), way: NAME_ANOTHER }),
            None if npm.is_some() => (Manager::Npm, npm),
            None if pnpm.is_some() => (Manager::Pnpm, pnpm),
            None if yarn.is_some() => (self.which_yarn(yarn, None)?, yarn),
            None => match bun {
                Some(bun) => return Err(PlanError::Bun { file: bun.path.to_string(), way: REMOVE }),
                None if self.sources.file("pnpm-workspace.yaml").is_some() => (Manager::Pnpm, None),
                None => (Manager::Npm, None),
            },
        };
        for ignored in [npm, pnpm, yarn, bun].into_iter().flatten().filter(|entry| Some(*entry) != lock) {
            let why = match (name, lock) {
                (Some(name), _) => format!("{MANIFEST} names {name}"),
                (None, Some(lock)) => format!("{} comes first", lock.path),
                (None, None) => continue,
            };
            self.log.push(format!("{} is not used: {why}", ignored.path));
        }
        Ok(Choice { manager, lock })
    }

    /// A version that is named decides, then the lock's own format, then the kind of settings there are.
    fn which_yarn(&self, lock: Option<&SourceEntry>, version: Option<&str>) -> Result<Manager, PlanError> {
        let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        let is_classic = match (major, lock) {
            (Some(major), _) => major < 2,
            (None, Some(lock)) if lock.size() > 0 => {
                let parsed = YarnLock::parse(&self.sources.read(lock)?)
                    .map_err(|source| PlanError::manifest(&lock.path, source))?;
                parsed.format.is_none()
            }
            (None, _) => self.sources.file(".yarnrc.yml").is_none(),
        };
        Ok(if is_classic { Manager::YarnClassic } else { Manager::YarnBerry })
    }
}
