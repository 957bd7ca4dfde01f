//! After a start: ends what an earlier server process left and removes what nobody owns.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use stead_domain::EnvironmentId;
use stead_domain::ports::ProviderError;

use crate::builds::{self, Builds};
use crate::fault::{cgroup_failed, failed};
use crate::host::Host;
use crate::ownership;
use crate::record::{LaunchRecord, read_json};
use crate::sessions::{self, Sessions};
use crate::slots::{Holder, Lease};

/// How long a killed process may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends the sandbox of that name if an earlier process left one, and clears up after it; answers whether anything ran. Blocking.
pub(crate) fn end_leftover(host: &Host, name: &str) -> Result<bool, ProviderError> {
    let path = host.run.of(name).join(LaunchRecord::FILE);
    let launch: Option<LaunchRecord> = read_json(&path).map_err(failed("read what was launched", &path))?;
    let alive = launch.filter(LaunchRecord::is_alive);
    let ran = alive.is_some() || !host.cgroups.pids(name).map_err(cgroup_failed)?.is_empty();
    if let Some(launch) = alive {
        stead_sandbox::identity::kill_tree(launch.pid, launch.start_time_ticks, None, PATIENCE)
            .map_err(cgroup_failed)?;
    }
    host.clear(name)?;
    Ok(ran)
}

/// How many are ended side by side.
const AT_ONCE: usize = 8;

/// What a sweep of processes came to.
#[derive(Debug, Default)]
struct Swept {
    /// Trees that were ended.
    ended: usize,
    /// Names that something may still run under.
    stuck: BTreeSet<String>,
    fault: Option<ProviderError>,
}

/// Sweeps sessions: every tree is ended; files stay where `owned` names their environment. Blocking. What fails does not keep
/// the rest from being swept; the first tree that could not be ended is the error.
pub(crate) fn sweep_sessions(sessions: &Sessions, owned: &BTreeSet<EnvironmentId>) -> Result<usize, ProviderError> {
    let live = |name: &str| sessions.all_live().iter().any(|sandbox| sandbox.name == name);
    let swept = end_all(&sessions.host, 'e', live)?;
    let directory = sessions.host.config.data.join("environments");
    for environment in sessions.files.list().map_err(failed("list the environments", &directory))? {
        if sessions.live(environment).is_some() {
            continue;
        }
        // Everything that fails here was logged; the environment and its slot stay as they are.
        let _ = match sessions.record(environment)? {
            Some(record) if owned.contains(&environment) => sessions.ensure_lease(&record),
            Some(record) if swept.stuck.contains(&sessions::name_of(record.slot)) => Ok(()),
            // Without a record nothing was ever started in it.
            _ => sessions.remove(environment),
        };
    }
    for (slot, lease) in sessions.host.slots.list().map_err(failed("list the slots", &directory))? {
        if let Some(Lease { holder: Holder::Environment { environment }, .. }) = lease
            && !sessions.files.of(environment).exists()
        {
            sessions.host.slots.release(slot).map_err(failed("release a slot", &directory))?;
        }
    }
    swept.fault.map_or(Ok(swept.ended), Err)
}

/// Sweeps builds: every tree is ended, every directory taken back. Blocking. Fails as [`sweep_sessions`] does.
pub(crate) fn sweep_builds(builds: &Builds) -> Result<usize, ProviderError> {
    let host = &builds.host;
    // Asked after something was found: this process notes a name before anything of it can be found.
    let live = |name: &str| builds.is_open(name);
    let swept = end_all(host, 'b', live)?;
    let leases = host.config.data.join("environments/slots");
    for (slot, lease) in host.slots.list().map_err(failed("list the slots", &leases))? {
        let Some(Lease { holder: Holder::Build { directories }, .. }) = lease else { continue };
        let name = builds::name_of(slot);
        if live(&name) || swept.stuck.contains(&name) {
            continue;
        }
        let take_back =
            |directory: &PathBuf| ownership::take_back(directory).map_err(failed("take a directory back", directory));
        // One that could not be taken back was logged and keeps its user.
        if directories.iter().all(|directory| take_back(directory).is_ok()) {
            host.slots.release(slot).map_err(failed("release a slot", &leases))?;
        }
    }
    swept.fault.map_or(Ok(swept.ended), Err)
}

/// Ends everything whose name is `kind` and a number, by what the control groups and the run directory say.
fn end_all(host: &Host, kind: char, live: impl Fn(&str) -> bool) -> Result<Swept, ProviderError> {
    let mut names: BTreeSet<String> = host.cgroups.list().into_iter().collect();
    names.extend(host.run.names().map_err(failed("list the run directory", &host.config.run))?);
    let ours = |name: &String| name.strip_prefix(kind).is_some_and(|number| number.parse::<u32>().is_ok());
    let names: Vec<String> = names.into_iter().filter(|name| ours(name) && !live(name)).collect();
    // Each waits for its processes to be gone, so they are ended side by side.
    let chunks = names.chunks(names.len().div_ceil(AT_ONCE).max(1));
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let end =
            |names: &[String]| names.iter().map(|name| (name.clone(), end_leftover(host, name))).collect::<Vec<_>>();
        let threads: Vec<_> = chunks.map(|names| scope.spawn(move || end(names))).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let mut swept = Swept::default();
    for outcome in outcomes {
        let Ok(outcome) = outcome else {
            swept.fault.get_or_insert(ProviderError::passing("native_failed", "the sweep was interrupted"));
            continue;
        };
        for (name, outcome) in outcome {
            match outcome {
                Ok(ran) => swept.ended += usize::from(ran),
                Err(error) => {
                    tracing::error!(name, %error, "a sandbox of an earlier process does not end");
                    swept.stuck.insert(name);
                    swept.fault.get_or_insert(error);
                }
            }
        }
    }
    Ok(swept)
}
