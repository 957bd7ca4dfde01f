//! What this host can enforce, for `stead doctor` and for refusing to start where policy demands more.
//!
//! Kernel features are tried, not deduced from a version or a setting, and they are tried by the
//! launcher started as `PROBE_ARGUMENT`, because some of the calls are not for a threaded process.
//! Probing changes nothing on the host.

mod kernel;
mod mounts;
mod namespaces;
mod storage;

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::cgroup::{CgroupManager, Controller, Version};

pub(crate) use kernel::probe as probe_kernel;

/// Second argument of a launcher that shall try the kernel's features instead of making a sandbox.
pub(crate) const PROBE_ARGUMENT: &str = "probe";

/// Who makes the sandboxes; it decides how a feature is tried and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Root,
    OrdinaryUser,
}

/// How far a feature is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// In full.
    Enforced,
    /// In part, or by a weaker means.
    Partial,
    /// Not at all.
    Missing,
}

/// One feature as found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// Short stable name.
    pub name: String,
    /// How far it is there.
    pub state: State,
    /// Whether no sandbox can be made without it.
    pub required: bool,
    /// What was found and what follows from it, in words.
    pub explanation: String,
    /// The command that would change it, if one would.
    pub fix: Option<String>,
}

/// All features of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// In the order in which they should be shown.
    pub all: Vec<Feature>,
}

impl Features {
    /// The first required feature that is missing.
    pub fn obstacle(&self) -> Option<&Feature> {
        self.all.iter().find(|feature| feature.required && feature.state == State::Missing)
    }

    /// A feature by name.
    pub fn get(&self, name: &str) -> Option<&Feature> {
        self.all.iter().find(|feature| feature.name == name)
    }
}

/// Tries everything. `executable` is the binary that calls [`crate::launcher_main`], `cgroups` what
/// [`CgroupManager::detect`] found, `data` the directory whose file system holds workspaces.
///
/// # Errors
/// When the launcher cannot be run or says nothing that can be understood.
pub fn probe(executable: &Path, cgroups: &CgroupManager, data: &Path) -> io::Result<Features> {
    let mut command = Command::new(executable);
    crate::launcher::named_as_launcher(&mut command)
        .arg(PROBE_ARGUMENT)
        .arg(data)
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let mut all: Vec<Feature> = serde_json::from_slice(&command.output()?.stdout)?;
    all.extend([Controller::Memory, Controller::Pids, Controller::Cpu].map(|one| controller(cgroups, one)));
    all.push(disk_rates(cgroups));
    all.push(group_kill(cgroups));
    all.push(storage::disk_quota());
    Ok(Features { all })
}

fn controller(cgroups: &CgroupManager, controller: Controller) -> Feature {
    let name = format!("cgroup {}", controller.name());
    let bound = match controller {
        Controller::Memory => "memory",
        Controller::Pids => "the number of processes",
        _ => "processor time",
    };
    let (state, explanation, fix) = match cgroups.version_of(controller) {
        Some(Version::Unified) => (State::Enforced, format!("{bound} is bounded by control groups, version 2"), None),
        Some(Version::Legacy) => (State::Enforced, format!("{bound} is bounded by control groups, version 1"), None),
        None => {
            let mut text = format!("{bound} is bounded softly: only resource limits hold");
            for note in cgroups.notes() {
                text.push_str("; ");
                text.push_str(note);
            }
            let fix = "run the service in a delegated control group: Delegate=yes in its systemd unit";
            (State::Missing, text, Some(fix.to_string()))
        }
    };
    Feature { name, state, required: false, explanation, fix }
}

fn disk_rates(cgroups: &CgroupManager) -> Feature {
    let (state, explanation, fix) = if cgroups.version_of(Controller::Io).is_some() {
        (State::Enforced, "reading from and writing to disks is shared fairly and can be bounded", None)
    } else {
        (
            State::Missing,
            "one session's reading and writing can slow the disks for all: no group of version 2 has the controller io",
            Some(
                "boot with systemd.unified_cgroup_hierarchy=1 and run the service with Delegate=yes in its systemd unit",
            ),
        )
    };
    Feature {
        name: "io".to_string(),
        state,
        required: false,
        explanation: explanation.to_string(),
        fix: fix.map(ToString::to_string),
    }
}

fn group_kill(cgroups: &CgroupManager) -> Feature {
    let (state, explanation) = if cgroups.kills_at_once() {
        (State::Enforced, "a sandbox's group can be killed at once")
    } else if cgroups.version_of(Controller::Freezer).is_some() {
        (State::Partial, "a sandbox's group is frozen and its processes killed one by one")
    } else {
        (State::Partial, "a sandbox is killed by its first process alone")
    };
    Feature { name: "cgroup kill".to_string(), state, required: false, explanation: explanation.to_string(), fix: None }
}
