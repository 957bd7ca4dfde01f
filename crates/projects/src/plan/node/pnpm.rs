//! pnpm: `pnpm install --frozen-lockfile`.

use std::collections::BTreeMap;

use stead_bundles::manifest::{PnpmLock, PnpmWorkspace};
use stead_domain::network::BuildNetworkPolicy;
use stead_domain::source::SourceEntry;

use super::super::{PlanError, Planner};
use super::inputs::Inputs;
use super::{Install, MANIFEST};
use crate::environment::{CACHE_MOUNT, installer_env};

const WORKSPACE: &str = "pnpm-workspace.yaml";
/// Hooks: code that runs during an install and may read anything.
const HOOKS: [&str; 2] = [".pnpmfile.cjs", ".pnpmfile.mjs"];

impl Planner<'_> {
    pub(super) fn pnpm(&mut self, inputs: &mut Inputs, lock: Option<&SourceEntry>) -> Result<Install, PlanError> {
        let parsed = lock
            .map(|lock| {
                PnpmLock::parse(&self.sources.read(lock)?).map_err(|source| PlanError::manifest(&lock.path, source))
            })
            .transpose()?;
        let named = lock.map_or(MANIFEST, |lock| lock.path.as_str());
        let tool = self.toolchain.node_tools.pnpm_for(parsed.as_ref().map(|lock| lock.format.as_str()));
        let tool = tool.map_err(|tool| Self::missing(named, tool))?.clone();

        inputs.add(lock);
        inputs.whole |= HOOKS.iter().any(|name| self.sources.file(name).is_some());
        let mut paths = Vec::new();
        if let Some(file) = self.sources.file(WORKSPACE) {
            inputs.add(Some(file));
            let workspace = PnpmWorkspace::parse(&self.sources.read(file)?)
                .map_err(|source| PlanError::manifest(WORKSPACE, source))?;
            inputs.whole |= workspace.needs_whole_source;
            // The file may hold settings alone.
            inputs.reads_members |= !workspace.packages.is_empty();
            paths.extend(workspace.patches);
        }
        if let (Some(lock), Some(parsed)) = (lock, parsed) {
            inputs.whole |= parsed.needs_whole_source;
            inputs.reads_members |= parsed.members.len() > 1;
            inputs.members = (!parsed.members.is_empty()).then_some(parsed.members);
            paths.extend(parsed.local_archives.into_iter().chain(parsed.patches));
            self.say_unhashed(lock, parsed.unhashed);
        }
        paths.iter().for_each(|path| inputs.add(self.sources.file(path)));

        let frozen = if lock.is_some() { "--frozen-lockfile" } else { "--no-frozen-lockfile" };
        let mut argv = vec![
            tool.program,
            "install".to_owned(),
            frozen.to_owned(),
            "--reporter=append-only".to_owned(),
            // Given here, since a project's own settings come before those of an environment.
            format!("--store-dir={CACHE_MOUNT}/pnpm/store"),
            "--package-import-method=copy".to_owned(),
            "--config.node-linker=isolated".to_owned(),
            "--config.manage-package-manager-versions=false".to_owned(),
            "--config.package-manager-strict=false".to_owned(),
            // What scripts of one install made is no part of the key of the next.
            "--config.side-effects-cache=false".to_owned(),
        ];
        if self.settings.network == BuildNetworkPolicy::Disabled {
            argv.push("--offline".to_owned());
        }
        Ok(Install {
            name: format!("pnpm install ({named})"),
            installer: format!("pnpm {}", tool.version),
            argv,
            env: self.pnpm_env(),
            replaced: Vec::new(),
            pinned: lock.is_some(),
        })
    }

    fn pnpm_env(&self) -> BTreeMap<String, String> {
        let mut env = installer_env(self.settings);
        for (name, value) in [
            ("npm_config_cache_dir", format!("{CACHE_MOUNT}/pnpm/cache")),
            ("npm_config_state_dir", format!("{CACHE_MOUNT}/pnpm/state")),
            ("npm_config_manage_package_manager_versions", "false".to_owned()),
        ] {
            env.insert(name.to_owned(), value);
        }
        env
    }
}
