//! After a start: ends what an earlier server process left and removes what nobody owns.

use std::collections::BTreeSet;
use std::time::Duration;

use stead_domain::EnvironmentId;
use stead_domain::ports::ProviderError;

use crate::builds::{self, Builds};
use crate::fault::{cgroup_failed, failed};
use crate::host::Host;
use crate::ownership;
use crate::record::{LaunchRecord, read_json};
use crate::sessions::Sessions;
use crate::slots::Lease;

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

/// Sweeps sessions: every tree is ended; files stay where `owned` names their environment. Blocking.
pub(crate) fn sweep_sessions(sessions: &Sessions, owned: &BTreeSet<EnvironmentId>) -> Result<usize, ProviderError> {
    let live = |name: &str| sessions.all_live().iter().any(|sandbox| sandbox.name == name);
    let ended = end_all(&sessions.host, 'e', live)?;
    let directory = sessions.host.config.data.join("environments");
    for environment in sessions.files.list().map_err(failed("list the environments", &directory))? {
        if sessions.live(environment).is_some() {
            continue;
        }
        match sessions.record(environment)? {
            Some(record) if owned.contains(&environment) => sessions.ensure_lease(&record)?,
            // Without a record nothing was ever started in it.
            _ => sessions.remove(environment)?,
        }
    }
    for (slot, lease) in sessions.host.slots.list().map_err(failed("list the slots", &directory))? {
        if let Some(Lease::Environment { environment }) = lease
            && sessions.record(environment)?.is_none_or(|record| record.slot != slot)
        {
            sessions.host.slots.release(slot).map_err(failed("release a slot", &directory))?;
        }
    }
    Ok(ended)
}

/// Sweeps builds: every tree is ended, every directory taken back. Blocking.
pub(crate) fn sweep_builds(builds: &Builds) -> Result<usize, ProviderError> {
    let host = &builds.host;
    // Asked after something was found: this process notes a name before anything of it can be found.
    let live = |name: &str| builds.is_open(name);
    let ended = end_all(host, 'b', live)?;
    let leases = host.config.data.join("environments/slots");
    for (slot, lease) in host.slots.list().map_err(failed("list the slots", &leases))? {
        let Some(Lease::Build { directories }) = lease else { continue };
        if live(&builds::name_of(slot)) {
            continue;
        }
        for directory in &directories {
            ownership::take_back(directory).map_err(failed("take a directory back", directory))?;
        }
        host.slots.release(slot).map_err(failed("release a slot", &leases))?;
    }
    Ok(ended)
}

/// Ends everything whose name is `kind` and a number, by what the control groups and the run directory say.
fn end_all(host: &Host, kind: char, live: impl Fn(&str) -> bool) -> Result<usize, ProviderError> {
    let mut names: BTreeSet<String> = host.cgroups.list().into_iter().collect();
    names.extend(host.run.names().map_err(failed("list the run directory", &host.config.run))?);
    let ours = |name: &String| name.strip_prefix(kind).is_some_and(|number| number.parse::<u32>().is_ok());
    let mut ended = 0;
    for name in names.iter().filter(|name| ours(name) && !live(name)) {
        ended += usize::from(end_leftover(host, name)?);
    }
    Ok(ended)
}
