//! The native provider: sandboxes of this machine.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use stead_outbound::Dialer;
use stead_provider_native::{
    Leftover, NativeConfig, NativeProvider, RANGES, RuntimeProgram, UIDS_PER_SLOT, leftovers, services,
};

use super::node;
use crate::config::Settings;

/// What cannot be done.
const UNUSABLE: &str = "the native provider cannot be opened";

/// Opens the provider; blocking.
pub(super) fn open(settings: &Settings, node: &str) -> anyhow::Result<NativeProvider> {
    NativeProvider::open(config(settings, node)?, Arc::new(Dialer::system(Vec::new()))).context(UNUSABLE)
}

/// Finds out what would keep the provider from being opened, while another process may still serve; blocking.
pub(super) fn check(settings: &Settings) -> anyhow::Result<()> {
    let node = node::known(&settings.data_directory).context("failed to read the name of this machine")?;
    NativeProvider::check(&config(settings, &node.unwrap_or_default())?).context(UNUSABLE)
}

/// Why a program cannot be the runtime; blocking.
pub(crate) fn check_runtime(settings: &Settings) -> anyhow::Result<()> {
    Ok(runtime(settings)?.check()?)
}

fn runtime(settings: &Settings) -> anyhow::Result<RuntimeProgram> {
    let sha256 = if settings.runtime_chosen { None } else { built_with()? };
    Ok(RuntimeProgram::File { path: settings.runtime_path.clone(), sha256 })
}

fn config(settings: &Settings, node: &str) -> anyhow::Result<NativeConfig> {
    let data = &settings.data_directory;
    let mut config = NativeConfig::new(data, data.join("run"), runtime(settings)?);
    config.uid_base = settings.native.uid_base;
    config.slots = settings.native.slots;
    config.workspace_slots = settings.native.workspace_slots;
    node.clone_into(&mut config.node);
    config.limits = settings.native.limits;
    config.limits.cpu_millis = beside_others(config.limits.cpu_millis, available_cores());
    config.disk_rate = settings.native.disk_rate;
    config.disk_reserve = settings.native.disk_reserve;
    config.orphan_grace = settings.sessions.orphan_grace;
    config.cgroup_prefix = cgroup_prefix(node);
    config.toolchains = toolchains(data).context("failed to look for toolchains in the data directory")?;
    config.session_ports = settings.sessions.ports.rule(&config.session_ports);
    config.registry_hosts = settings.builds.registry_hosts.iter().cloned().collect();
    config.ca_bundle.clone_from(&settings.native.ca_bundle);
    Ok(config)
}

/// Everything of a data directory on this machine. Blocking; makes nothing.
pub(crate) fn left_over(settings: &Settings) -> std::io::Result<Vec<Leftover>> {
    let data = &settings.data_directory;
    match node::known(data)? {
        Some(node) => leftovers(data, &data.join("run"), &cgroup_prefix(&node), slots(settings)),
        None => Err(std::io::Error::new(std::io::ErrorKind::NotFound, "no server was ever started on it")),
    }
}

/// How many slots a data directory has: as its server noted when it started, since whoever asks may be configured otherwise.
fn slots(settings: &Settings) -> u32 {
    let own = settings.data_directory.canonicalize().unwrap_or_else(|_| settings.data_directory.clone());
    let noted = services(Path::new(RANGES)).into_iter().find(|service| Path::new(&service.who) == own);
    noted.map_or(settings.native.slots, |service| (service.ids.len() as u32) / UIDS_PER_SLOT)
}

/// The digest of the runtime that was built with this program: another one that lies beside it is not run. A program that was
/// built alone knows none, and one that the operator names is the operator's to judge.
fn built_with() -> anyhow::Result<Option<[u8; 32]>> {
    let digest = option_env!("STEAD_RUNTIME_SHA256").map(digest);
    digest.transpose().context("this program was built with a digest of the runtime that is none")
}

fn digest(text: &str) -> anyhow::Result<[u8; 32]> {
    anyhow::ensure!(text.len() == 64 && text.is_ascii(), "a SHA-256 has 64 hexadecimal digits");
    let mut digest = [0; 32];
    for (index, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16)?;
    }
    Ok(digest)
}

/// One session never takes every core: beside one that does, what others start waits for its turn again and again.
fn beside_others(cpu_millis: u64, cores: u64) -> u64 {
    cpu_millis.min(cores * 750)
}

fn available_cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64)
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

#[cfg(test)]
mod tests {
    use super::{beside_others, digest};

    #[test]
    fn a_session_leaves_a_part_of_the_machine() {
        assert_eq!(
            [(2000, 1), (2000, 2), (2000, 8), (500, 2)].map(|(cpu, cores)| beside_others(cpu, cores)),
            [750, 1500, 2000, 500]
        );
    }

    #[test]
    fn a_digest_is_sixty_four_digits() {
        let hex = format!("00ff{}", "1a".repeat(30));
        assert_eq!(digest(&hex).unwrap()[..3], [0, 0xff, 0x1a]);
        for wrong in ["", "00", &"zz".repeat(32), &"é".repeat(32)] {
            assert!(digest(wrong).is_err(), "{wrong}");
        }
    }
}
