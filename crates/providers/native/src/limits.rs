//! What a sandbox ran into: the kernel's counters, the disk as it is measured, and the file systems in memory. Each finding is
//! told once, so that whoever asks before a command and after it learns what happened in between.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use stead_domain::environment::HOME;
use stead_domain::limit::Reached;
use stead_domain::ports::SandboxLimits;
use stead_sandbox::cgroup::CgroupStats;
use stead_sandbox::disk::Usage;

use crate::accounting::Quota;

/// Where file systems in memory lie: the last one in builds only.
const IN_MEMORY: [&str; 3] = ["/tmp", "/dev/shm", HOME];
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// What one sandbox ran into.
#[derive(Debug)]
pub(crate) struct Ledger {
    bounds: SandboxLimits,
    quota: OnceLock<Quota>,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    /// Found by those who look from time to time, and not told yet.
    noted: Vec<Reached>,
    /// Processes ended for want of memory, as far as told.
    kills: u64,
    /// Processes refused, as far as told.
    refusals: u64,
    /// What lies on disk, when that is too much and somebody was told.
    over: Usage,
    /// The places in memory that are full, as far as told.
    full: BTreeSet<&'static str>,
}

impl Ledger {
    pub(crate) fn new(bounds: SandboxLimits) -> Self {
        Self { bounds, quota: OnceLock::new(), entries: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what may lie on disk; without it nothing is measured.
    pub(crate) fn bound_disk(&self, quota: Quota) {
        // It is said once, by whoever launched the sandbox.
        let _ = self.quota.set(quota);
    }

    /// Keeps a finding until somebody asks.
    pub(crate) fn note(&self, reached: Reached) {
        let mut entries = self.entries();
        if !entries.noted.contains(&reached) {
            entries.noted.push(reached);
        }
    }

    /// Judges a measurement. Too much is told when it has grown since: one that shrinks is being cleaned up by somebody.
    pub(crate) fn judge(&self, quota: &Quota, usage: Usage) -> Option<Reached> {
        let mut entries = self.entries();
        let verdict = quota.verdict(&usage);
        let over = std::mem::replace(&mut entries.over, if verdict.is_some() { usage } else { Usage::default() });
        let grows = usage.bytes > over.bytes || usage.inodes > over.inodes || usage.unvisited > over.unvisited;
        verdict.filter(|_| grows)
    }

    /// What was reached since this was last asked, what explains most first. Measures the disk when it is to be `thorough`.
    /// Blocking.
    pub(crate) fn reached(&self, stats: &CgroupStats, pid: i32, thorough: bool) -> Vec<Reached> {
        let measured = self.quota.get().filter(|_| thorough).and_then(|quota| self.judge(quota, quota.measure()));
        let full = full_places(pid);
        let mut entries = self.entries();
        let mut found = Vec::new();
        let (kills, refusals) = (stats.out_of_memory_kills.unwrap_or(0), stats.processes_refused.unwrap_or(0));
        if kills > std::mem::replace(&mut entries.kills, kills) {
            found.push(Reached::Memory { bytes: self.bounds.memory_bytes });
        }
        if refusals > std::mem::replace(&mut entries.refusals, refusals) {
            found.push(Reached::Processes { most: self.bounds.processes });
        }
        for reached in std::mem::take(&mut entries.noted).into_iter().chain(measured) {
            if !found.contains(&reached) {
                found.push(reached);
            }
        }
        let before = std::mem::replace(&mut entries.full, full.iter().map(|(place, _)| *place).collect());
        found.extend(full.into_iter().filter(|(place, _)| !before.contains(place)).map(|(_, reached)| reached));
        found
    }
}

/// The file systems in memory, as seen by process 1 of a sandbox, that take nothing more.
fn full_places(pid: i32) -> Vec<(&'static str, Reached)> {
    let look = |place: &'static str| {
        // The way to each is the launcher's own; a process that has ended has none.
        let system = rustix::fs::statfs(format!("/proc/{pid}/root{place}")).ok()?;
        if u64::try_from(system.f_type).ok()? != TMPFS_MAGIC {
            return None;
        }
        let (name, block) = (place.to_owned(), u64::try_from(system.f_bsize).unwrap_or(0));
        match (system.f_blocks, system.f_bavail, system.f_files, system.f_ffree) {
            (1.., 0, ..) => Some((place, Reached::MemoryFull { place: name, bytes: system.f_blocks * block })),
            (_, _, 1.., 0) => Some((place, Reached::MemoryFiles { place: name, files: system.f_files })),
            _ => None,
        }
    };
    IN_MEMORY.into_iter().filter_map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: SandboxLimits = SandboxLimits {
        memory_bytes: 1 << 20,
        processes: 7,
        cpu_millis: 1000,
        open_files: 64,
        disk_bytes: 1000,
        disk_files: 10,
    };

    #[test]
    fn each_finding_is_told_once() {
        let ledger = Ledger::new(BOUNDS);
        let stats = |kills, refusals| CgroupStats {
            out_of_memory_kills: Some(kills),
            processes_refused: Some(refusals),
            ..CgroupStats::default()
        };
        // No process has this number, so nothing is said of its places.
        let reached = |kills, refusals| ledger.reached(&stats(kills, refusals), i32::MAX, true);
        assert!(reached(0, 0).is_empty());
        assert_eq!(reached(2, 3), [Reached::Memory { bytes: 1 << 20 }, Reached::Processes { most: 7 }]);
        assert!(reached(2, 3).is_empty());
        ledger.note(Reached::DiskDepth);
        assert_eq!(reached(3, 3), [Reached::Memory { bytes: 1 << 20 }, Reached::DiskDepth]);
        assert!(reached(3, 3).is_empty());
    }

    #[test]
    fn too_much_on_disk_is_told_again_only_when_it_has_grown() {
        let ledger = Ledger::new(BOUNDS);
        let quota = Quota::total(Vec::new(), &BOUNDS, None);
        let judge = |bytes, inodes| ledger.judge(&quota, Usage { bytes, inodes, unvisited: 0 });
        assert_eq!(judge(1000, 10), None);
        assert_eq!(judge(2000, 10), Some(Reached::DiskBytes { bytes: 1000 }));
        assert_eq!(judge(2000, 9), None);
        assert_eq!(judge(1500, 5), None);
        assert_eq!(judge(1500, 11), Some(Reached::DiskBytes { bytes: 1000 }));
        assert_eq!(judge(10, 1), None);
        assert_eq!(judge(10, 11), Some(Reached::DiskFiles { files: 10 }));
    }
}
