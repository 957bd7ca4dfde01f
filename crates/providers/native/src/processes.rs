//! Soft bounds on memory and processes, where no control group keeps them: what the processes of a sandbox have is added up from
//! time to time. The resource limits of each process are the kernel's to keep all the same.

use std::fs;

use stead_domain::limit::Reached;
use stead_domain::ports::SandboxLimits;
use stead_sandbox::cgroup::{CgroupManager, Controller};

/// What the processes have too much of.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Uncounted {
    /// They have more memory than they may, and must be ended.
    pub(crate) memory: Option<Reached>,
    /// There are as many as there may be: the kernel refuses the next one.
    pub(crate) processes: Option<Reached>,
}

/// Judges what no control group counts. Blocking; one read or two of each process.
pub(crate) fn judge(cgroups: &CgroupManager, processes: &[i32], limits: &SandboxLimits) -> Uncounted {
    let mut found = Uncounted::default();
    if cgroups.version_of(Controller::Memory).is_none() && memory(processes, limits.memory_bytes) > limits.memory_bytes
    {
        found.memory = Some(Reached::Memory { bytes: limits.memory_bytes });
    }
    if cgroups.version_of(Controller::Pids).is_none() && threads(processes) >= limits.processes {
        found.processes = Some(Reached::Processes { most: limits.processes });
    }
    found
}

/// Memory in use. What processes share is divided among them only where it matters, because that takes the kernel a walk.
fn memory(processes: &[i32], bound: u64) -> u64 {
    let resident = processes.iter().filter_map(|process| resident(*process)).sum();
    if resident <= bound {
        return resident;
    }
    processes.iter().filter_map(|process| proportional(*process).or_else(|| self::resident(*process))).sum()
}

/// Memory of one process, in bytes; files that it has mapped are left out.
fn resident(process: i32) -> Option<u64> {
    sum(&format!("/proc/{process}/status"), ["RssAnon:", "RssShmem:"])
}

/// The same, with what several processes share counted once altogether.
fn proportional(process: i32) -> Option<u64> {
    sum(&format!("/proc/{process}/smaps_rollup"), ["Pss_Anon:", "Pss_Shmem:"])
}

/// Adds up lines that the kernel writes in kibibytes.
fn sum(path: &str, names: [&str; 2]) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let number = |name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    Some((number(names[0])? + number(names[1]).unwrap_or(0)) * 1024)
}

fn threads(processes: &[i32]) -> u64 {
    let of = |process: &i32| fs::read_dir(format!("/proc/{process}/task")).map_or(0, |entries| entries.count() as u64);
    processes.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_threads_are_added_up() {
        let own = std::process::id() as i32;
        let before = memory(&[own], u64::MAX);
        let block = vec![1_u8; 64 << 20];
        let after = memory(&[own], u64::MAX);
        assert!(after >= before + (60 << 20), "{before} {after}");
        let precise = memory(&[own], 0);
        assert!(precise >= 60 << 20 && precise <= after + (64 << 20), "{precise} {after}");
        drop(block);
        assert!(threads(&[own]) >= 2 && threads(&[i32::MAX]) == 0);
    }
}
