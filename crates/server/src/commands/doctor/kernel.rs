//! What the kernel offers, as the sandbox crate tries it, and one sandbox that is really made of it.

use std::path::Path;

use stead_sandbox::cgroup::CgroupManager;
use stead_sandbox::features::{self, Feature, State};

use super::trial::{self, Attempt};
use super::{Finding, Standing};

/// Control groups of this process's own, with its number behind: those of a running server are left alone.
const GROUP: &str = "stead-doctor";

/// Features that are limits rather than fences.
const LIMITS: [&str; 5] = ["cgroup memory", "cgroup pids", "cgroup cpu", "cgroup kill", "io"];
const DISK: [&str; 1] = ["disk quota"];

/// What was found, by section.
#[derive(Debug, Default)]
pub(super) struct Probed {
    pub(super) isolation: Vec<Finding>,
    pub(super) limits: Vec<Finding>,
    pub(super) disk: Vec<Finding>,
    pub(super) trial: Vec<Finding>,
    pub(super) attempts: Vec<Attempt>,
}

/// Tries the kernel's features on the file system at `data`, and a sandbox.
pub(super) fn probe(data: &Path) -> Probed {
    let mut probed = Probed::default();
    let cgroups = match CgroupManager::look(&format!("{GROUP}-{}", std::process::id())) {
        Ok(cgroups) => cgroups,
        Err(error) => {
            let text = format!("what the kernel offers cannot be tried: {error}");
            probed.isolation.push(Finding::missing("sandbox", true, text, None));
            return probed;
        }
    };
    match std::env::current_exe().and_then(|program| features::probe(&program, &cgroups, data)) {
        Ok(found) => {
            let lacks = found.obstacle().is_some();
            for feature in found.all {
                let among = |names: &[&str]| names.contains(&feature.name.as_str());
                let section = if among(&LIMITS) {
                    &mut probed.limits
                } else if among(&DISK) {
                    &mut probed.disk
                } else {
                    &mut probed.isolation
                };
                section.push(finding(feature));
            }
            if !lacks {
                let trial = trial::run(&cgroups);
                probed.trial = trial.fences;
                probed.limits.extend(trial.limits);
                probed.attempts = trial.attempts;
            }
        }
        Err(error) => {
            let text = format!("what the kernel offers cannot be tried: {error}");
            probed.isolation.push(Finding::missing("sandbox", true, text, None));
        }
    }
    cgroups.retire();
    probed
}

fn finding(feature: Feature) -> Finding {
    Finding {
        name: feature.name,
        standing: match feature.state {
            State::Enforced => Standing::Good,
            State::Partial => Standing::Partial,
            State::Missing => Standing::Missing,
        },
        required: feature.required,
        explanation: feature.explanation,
        fix: feature.fix,
    }
}
