//! The native provider: sandboxes of this machine.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use stead_outbound::Dialer;
use stead_provider_native::{NativeConfig, NativeProvider, RuntimeProgram};

use crate::config::Settings;

/// Opens the provider; blocking.
pub(super) fn open(settings: &Settings, node: &str) -> anyhow::Result<NativeProvider> {
    let data = &settings.data_directory;
    let runtime = RuntimeProgram::File { path: settings.runtime_path.clone(), sha256: None };
    let mut config = NativeConfig::new(data, data.join("run"), runtime);
    config.uid_base = settings.native.uid_base;
    config.slots = settings.native.slots;
    config.limits = settings.native.limits;
    config.cgroup_prefix = cgroup_prefix(node);
    config.toolchains = toolchains(data).context("failed to look for toolchains in the data directory")?;
    config.registry_hosts = settings.builds.registry_hosts.iter().cloned().collect();
    config.ca_bundle.clone_from(&settings.native.ca_bundle);
    NativeProvider::open(config, Arc::new(Dialer::system(Vec::new())))
        .context("failed to open the native provider; `stead doctor` says what is missing")
}

/// Two services on one machine have two data directories, so their nodes have two names.
fn cgroup_prefix(node: &str) -> String {
    let tail = node.len().saturating_sub(12);
    format!("stead-{}", node.get(tail..).unwrap_or(node))
}

fn toolchains(data: &Path) -> std::io::Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    match std::fs::read_dir(data.join("toolchains")) {
        Ok(entries) => {
            for entry in entries {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    found.push(entry.path());
                }
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    found.sort();
    Ok(found)
}
