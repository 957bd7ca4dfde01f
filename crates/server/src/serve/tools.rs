//! Looks for this machine's tools and asks them where they install from, while the server already answers: each takes a moment to
//! say anything, and only builds, tasks on a version and questions about packages need to know.

use std::collections::BTreeSet;
use std::sync::Arc;

use stead_engine::{BuildRegistries, Tools};
use stead_projects::Toolchain;

use super::registries::{self, LateRegistries};
use super::wiring::{python_candidates, uv_candidates};
use crate::config::Settings;
use crate::registries::Registries;

/// Who waits for what is found.
#[derive(Clone, Default)]
pub(super) struct Waiting {
    /// The engine's builds and tasks.
    pub(super) tools: Arc<Tools>,
    /// Questions about packages.
    pub(super) packages: Arc<LateRegistries>,
}

impl Waiting {
    /// Begins to look. Threads of their own, so that a tool that never answers keeps no stop waiting.
    pub(super) fn look(&self, settings: &Settings) {
        let (to, settings) = (self.clone(), Arc::new(settings.clone()));
        let of = Arc::clone(&settings);
        std::thread::spawn(move || to.toolchain(&of));
        let to = self.clone();
        std::thread::spawn(move || to.registries(&settings));
    }

    fn toolchain(&self, settings: &Settings) {
        let data = &settings.data_directory;
        let toolchain = Toolchain::detect(&uv_candidates(data), &python_candidates(data));
        let toolchain = toolchain.with_node_tools(&data.join("toolchains"));
        tracing::info!("builds and sessions run on {}", toolchain.base().description);
        self.tools.tell_toolchain(toolchain);
    }

    fn registries(&self, settings: &Settings) {
        let found = Registries::look(&settings.builds, &settings.data_directory);
        let named = found.hosts.iter().chain(&settings.builds.registry_hosts).map(String::as_str);
        let named = named.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ");
        let network = settings.builds.network.within(&settings.builds.network_limit);
        tracing::info!(%network, registries = named, "what builds reach");
        match registries::open(settings, &found) {
            Ok(client) => self.packages.tell(client),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "packages cannot be checked");
            }
        }
        let Registries { python_index, npm_registry, hosts } = found;
        self.tools.tell_registries(BuildRegistries { hosts, python_index, npm_registry });
    }
}
