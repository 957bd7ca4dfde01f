//! Everything on this machine that belongs to one data directory, with whose it is: for an operator who wants to know what a server
//! left, and for tests, which compare it with what the server says exists.
//!
//! It only looks, so it may be called while a server runs on the directory; then it lists what that server has. What is on its way
//! in or out is listed as well: who compares asks again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use stead_domain::EnvironmentId;
use stead_sandbox::cgroup::CgroupManager;
use stead_sandbox::identity;

use crate::config::UIDS_PER_SLOT;
use crate::ids;
use crate::record::{Files, LaunchRecord, environment_of, read_json};
use crate::slots::{Holder, Lease, Slots};

/// Something that is there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Leftover {
    /// What it is.
    pub kind: LeftoverKind,
    /// A path; the number of a process or a slot.
    pub name: String,
    /// More about it, for people.
    pub detail: String,
    /// Whose it is.
    pub owner: Owner,
}

/// What is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftoverKind {
    /// A process; `name` is its number on the host.
    Process,
    /// A mount that everybody on the host sees; those inside a sandbox go with its processes. `name` is where it is.
    Mount,
    /// A control group; `name` is its directory.
    ControlGroup,
    /// A lease of user ids and names; `name` is the slot.
    Slot,
    /// A directory of a running sandbox; `name` is its path.
    RunDirectory,
    /// The files of an environment; `name` is their path.
    EnvironmentDirectory,
}

/// Whose something is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Owner {
    /// An environment; whether it still exists is the server's to say.
    Environment {
        /// Which one.
        environment: EnvironmentId,
    },
    /// A build step. No build step outlives a start of the server.
    Build {
        /// The directories that it writes, which lie beneath those of its build or layer.
        directories: Vec<PathBuf>,
    },
    /// The egress proxy: the server's own, or one that an earlier server let go, which ends by itself.
    Egress,
    /// The slot is leased to nobody, or to nobody who can be found out.
    Nobody,
}

/// Lists everything of a data directory: `run` is where its sandboxes have their sockets, `cgroup_prefix` the name of its control
/// groups, and `slots` how many it may have. Blocking.
///
/// # Errors
/// When a directory that is there cannot be read.
pub fn leftovers(data: &Path, run: &Path, cgroup_prefix: &str, slots: u32) -> io::Result<Vec<Leftover>> {
    let leases = Slots::read_all(&data.join("environments/slots"))?;
    let launches = launches(run)?;
    let search = Search { leases: leases.into_iter().collect(), launches, found: BTreeSet::new() };
    let mut found: Vec<_> = search.everything(data, run, cgroup_prefix, slots)?.into_iter().collect();
    in_order(&mut found);
    Ok(found)
}

/// Numbers by their value: slots and processes.
fn in_order(found: &mut [Leftover]) {
    found.sort_by_cached_key(|one| (one.kind, one.name.parse::<u64>().ok(), one.name.clone()));
}

struct Search {
    leases: BTreeMap<u32, Option<Lease>>,
    /// What was launched, by name.
    launches: BTreeMap<String, LaunchRecord>,
    found: BTreeSet<Leftover>,
}

impl Search {
    fn everything(
        mut self,
        data: &Path,
        run: &Path,
        cgroup_prefix: &str,
        slots: u32,
    ) -> io::Result<BTreeSet<Leftover>> {
        for slot in self.leases.keys().copied().collect::<Vec<_>>() {
            let detail = if self.leases[&slot].is_some() { "leased" } else { "a lease that cannot be read" };
            self.add(LeftoverKind::Slot, slot.to_string(), detail, self.holder(slot));
        }
        for entry in entries(&data.join("environments"))? {
            let Some(environment) = entry.file_name().to_str().and_then(environment_of) else { continue };
            let has_record = entry.path().join(Files::RECORD).exists();
            let detail = if has_record { "with a record" } else { "without a record" };
            self.add(
                LeftoverKind::EnvironmentDirectory,
                text(&entry.path()),
                detail,
                Owner::Environment { environment },
            );
        }
        for entry in entries(run)?.into_iter().filter(|entry| entry.path().is_dir()) {
            let owner = self.owner(&entry.file_name().to_string_lossy());
            self.add(LeftoverKind::RunDirectory, text(&entry.path()), "", owner);
        }
        self.groups(cgroup_prefix)?;
        self.processes(ids::remembered(data)?, slots)?;
        self.mounts(&[data, run])?;
        Ok(self.found)
    }

    fn groups(&mut self, cgroup_prefix: &str) -> io::Result<()> {
        let manager = CgroupManager::existing(cgroup_prefix).map_err(io::Error::other)?;
        for name in manager.list() {
            let owner = self.owner(&name);
            let members = manager.pids(&name).map_err(io::Error::other)?;
            let detail = format!("{} processes", members.len());
            for place in manager.places(&name) {
                self.add(LeftoverKind::ControlGroup, text(&place), &detail, owner.clone());
            }
            members.into_iter().for_each(|pid| self.process(pid, owner.clone()));
        }
        Ok(())
    }

    /// Processes that no control group shows: beneath what was launched, and with user ids of ours.
    fn processes(&mut self, uid_base: Option<u32>, slots: u32) -> io::Result<()> {
        for (name, launch) in self.launches.clone() {
            if launch.is_alive() {
                let beneath = identity::descendants(launch.pid).unwrap_or_default();
                beneath.into_iter().for_each(|pid| self.process(pid, self.owner(&name)));
            }
        }
        let Some(base) = uid_base else { return Ok(()) };
        for entry in entries(Path::new("/proc"))? {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Some(user) = user_of(pid) else { continue };
            if user == base - 1 {
                self.process(pid, Owner::Egress);
            } else if let Some(offset) = user.checked_sub(base)
                && offset / UIDS_PER_SLOT < slots
            {
                self.process(pid, self.holder(offset / UIDS_PER_SLOT));
            }
        }
        Ok(())
    }

    fn mounts(&mut self, directories: &[&Path]) -> io::Result<()> {
        for line in fs::read_to_string("/proc/self/mountinfo")?.lines() {
            let Some(place) = line.split(' ').nth(4).map(Path::new) else { continue };
            // A directory that is a file system of its own is where the operator put it.
            if directories.iter().any(|directory| place.starts_with(directory) && place != *directory) {
                let owner = place.components().find_map(|part| environment_of(part.as_os_str().to_str()?));
                let owner = owner.map_or(Owner::Nobody, |environment| Owner::Environment { environment });
                self.add(LeftoverKind::Mount, text(place), line, owner);
            }
        }
        Ok(())
    }

    /// A process that has ended and waits for its parent is nobody's any more.
    fn process(&mut self, pid: i32, owner: Owner) {
        if !identity::start_time(pid).is_ok_and(|start| identity::is_alive(pid, start)) {
            return;
        }
        let name = pid.to_string();
        let is_known = |found: &Leftover| found.kind == LeftoverKind::Process && found.name == name;
        if self.found.iter().any(is_known) {
            return;
        }
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&words).replace('\0', " ");
        self.add(LeftoverKind::Process, name, command.trim(), owner);
    }

    fn add(&mut self, kind: LeftoverKind, name: String, detail: &str, owner: Owner) {
        self.found.insert(Leftover { kind, name, detail: detail.to_owned(), owner });
    }

    /// Whose a control group or a run directory of that name is.
    fn owner(&self, name: &str) -> Owner {
        if name.starts_with("egress") {
            return Owner::Egress;
        }
        let slot = name.strip_prefix(['e', 'b']).and_then(|number| number.parse().ok());
        match slot.map_or(Owner::Nobody, |slot| self.holder(slot)) {
            // The lease may be gone while something runs on.
            Owner::Nobody => match self.launches.get(name).and_then(|launch| launch.environment) {
                Some(environment) => Owner::Environment { environment },
                None => Owner::Nobody,
            },
            owner => owner,
        }
    }

    fn holder(&self, slot: u32) -> Owner {
        match self.leases.get(&slot).and_then(Option::as_ref).map(|lease| lease.holder.clone()) {
            Some(Holder::Environment { environment }) => Owner::Environment { environment },
            Some(Holder::Build { directories }) => Owner::Build { directories },
            None => Owner::Nobody,
        }
    }
}

fn launches(run: &Path) -> io::Result<BTreeMap<String, LaunchRecord>> {
    let mut launches = BTreeMap::new();
    for entry in entries(run)? {
        if let Ok(Some(launch)) = read_json(&entry.path().join(LaunchRecord::FILE)) {
            launches.insert(entry.file_name().to_string_lossy().into_owned(), launch);
        }
    }
    Ok(launches)
}

/// What is in a directory; nothing when there is none.
fn entries(directory: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(entries.flatten().collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The effective user of a process.
fn user_of(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order() {
        let slot = |name: &str| {
            let (name, detail) = (name.to_owned(), String::new());
            Leftover { kind: LeftoverKind::Slot, name, detail, owner: Owner::Nobody }
        };
        let mut found = ["10", "0", "9", "100"].map(slot);
        in_order(&mut found);
        assert_eq!(found.map(|one| one.name), ["0", "9", "10", "100"]);
    }
}
