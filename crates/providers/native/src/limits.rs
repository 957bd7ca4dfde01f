//! What a sandbox ran into: the kernel's counters, the disk as it is measured, and the file systems in memory. Each finding is
//! told once, so that whoever asks before a command and after it learns what happened in between.
//!
//! Ordering: what lies on disk is judged against what lay there when a command began ([`Ledger::begin`]). A measurement that was begun
//! in an earlier period than it ended in says nothing about either and is dropped.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use stead_domain::limit::Reached;
use stead_domain::ports::SandboxLimits;
use stead_sandbox::cgroup::CgroupStats;
use stead_sandbox::disk::Usage;

use crate::accounting::Quota;
use crate::in_memory::{Sight, look};

/// A measurement that takes no longer than this is no burden on a command that has succeeded.
const CHEAP: Duration = Duration::from_millis(10);
/// Growth that is nobody's doing: file systems settle late what they need for themselves. In bytes and in files; a small bound
/// has a part of itself.
const SETTLING: Usage = Usage { bytes: 256 << 10, inodes: 16, unvisited: 0 };
const PARTS: u64 = 64;

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
    /// Grows when a command begins and when one has ended.
    period: u64,
    /// What lay on disk when the command began, or when somebody was told of it since.
    baseline: Usage,
    /// Something was written since that nobody has measured.
    stale: bool,
    /// How long the last measurement took.
    took: Duration,
    /// What was to be seen of the places in memory, as far as told.
    seen: BTreeSet<Sight>,
}

impl Entries {
    /// What of the counters is new.
    fn counted(&mut self, stats: &CgroupStats, bounds: &SandboxLimits) -> Vec<Reached> {
        let mut found = Vec::new();
        let (kills, refusals) = (stats.out_of_memory_kills.unwrap_or(0), stats.processes_refused.unwrap_or(0));
        if kills > std::mem::replace(&mut self.kills, kills) {
            found.push(Reached::Memory { bytes: bounds.memory_bytes });
        }
        if refusals > std::mem::replace(&mut self.refusals, refusals) {
            found.push(Reached::Processes { most: bounds.processes });
        }
        found
    }

    /// Judges a measurement. Too much is told when it is more than before; when it shrinks, somebody is cleaning up.
    fn judge(&mut self, quota: &Quota, usage: Usage, bounds: &SandboxLimits) -> Option<Reached> {
        let before = self.baseline;
        let verdict = quota.verdict(&usage);
        let settling = |most: u64, bound: u64| most.min(bound / PARTS);
        let grows = usage.bytes > before.bytes.saturating_add(settling(SETTLING.bytes, bounds.disk_bytes))
            || usage.inodes > before.inodes.saturating_add(settling(SETTLING.inodes, bounds.disk_files))
            || usage.unvisited > before.unvisited;
        self.stale = false;
        self.baseline = match verdict {
            Some(_) if !grows => Usage {
                bytes: usage.bytes.min(before.bytes),
                inodes: usage.inodes.min(before.inodes),
                unvisited: usage.unvisited.min(before.unvisited),
            },
            _ => usage,
        };
        verdict.filter(|_| grows)
    }
}

impl Ledger {
    pub(crate) fn new(bounds: SandboxLimits) -> Self {
        Self { bounds, quota: OnceLock::new(), entries: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what may lie on disk; without it nothing is measured. It is said once, by whoever launched the sandbox, before
    /// anything runs there.
    pub(crate) fn bound_disk(&self, quota: Quota) {
        let mut entries = self.entries();
        (entries.baseline, entries.took) = quota.before();
        let _ = self.quota.set(quota);
    }

    /// Keeps a finding until somebody asks.
    pub(crate) fn note(&self, reached: Reached) {
        let mut entries = self.entries();
        if !entries.noted.contains(&reached) {
            entries.noted.push(reached);
        }
    }

    /// The period that a measurement begins in.
    pub(crate) fn period(&self) -> u64 {
        self.entries().period
    }

    /// Judges a measurement that was begun in `period`, when that is still the one.
    pub(crate) fn judge(&self, quota: &Quota, usage: Usage, period: u64) -> Option<Reached> {
        let mut entries = self.entries();
        if entries.period != period {
            return None;
        }
        entries.judge(quota, usage, &self.bounds)
    }

    /// A command is about to begin: what is there, and what was reached, is not its doing. Measures the disk where that is cheap,
    /// or where nobody has since something was written. Blocking.
    pub(crate) fn begin(&self, stats: &CgroupStats, pid: i32) {
        let worth = {
            let entries = self.entries();
            entries.stale || entries.took <= CHEAP
        };
        let measured = self.measure_if(worth);
        let seen = look(pid, &self.bounds);
        let mut entries = self.entries();
        entries.period += 1;
        entries.counted(stats, &self.bounds);
        entries.noted.clear();
        entries.seen = seen.into_iter().map(|(sight, _)| sight).collect();
        if let Some((_, usage, took)) = measured {
            (entries.baseline, entries.took, entries.stale) = (usage, took, false);
        }
    }

    fn measure_if(&self, worth: bool) -> Option<(&Quota, Usage, Duration)> {
        let (quota, began) = (self.quota.get().filter(|_| worth)?, Instant::now());
        Some((quota, quota.measure(), began.elapsed()))
    }

    /// What was reached since this was last asked, what explains most first. Measures the disk when it is to be `thorough`, and
    /// where that is cheap. Blocking.
    pub(crate) fn reached(&self, stats: &CgroupStats, pid: i32, thorough: bool) -> Vec<Reached> {
        let cheap = self.entries().took <= CHEAP;
        let measured = self.measure_if(thorough || cheap);
        let seen = look(pid, &self.bounds);
        let mut entries = self.entries();
        entries.period += 1;
        entries.stale = true;
        let measured = measured.and_then(|(quota, usage, took)| {
            entries.took = took;
            entries.judge(quota, usage, &self.bounds)
        });
        let mut found = entries.counted(stats, &self.bounds);
        for reached in std::mem::take(&mut entries.noted).into_iter().chain(measured) {
            if !found.contains(&reached) {
                found.push(reached);
            }
        }
        let before = std::mem::replace(&mut entries.seen, seen.iter().map(|(sight, _)| sight.clone()).collect());
        found.extend(seen.into_iter().filter(|(sight, _)| !before.contains(sight)).map(|(_, reached)| reached));
        found
    }
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
        let judge = |bytes, inodes| ledger.judge(&quota, Usage { bytes, inodes, unvisited: 0 }, 0);
        assert_eq!(judge(1000, 10), None);
        assert_eq!(judge(2000, 10), Some(Reached::DiskBytes { bytes: 1000 }));
        assert_eq!(judge(2000, 9), None);
        assert_eq!(judge(1500, 5), None);
        assert_eq!(judge(1500, 11), Some(Reached::DiskBytes { bytes: 1000 }));
        assert_eq!(judge(10, 1), None);
        assert_eq!(judge(10, 11), Some(Reached::DiskFiles { files: 10 }));
        // Too little to be anybody's doing, until it adds up.
        assert_eq!([2000, 2010, 2020].map(|bytes| judge(bytes, 1).is_some()), [true, false, true]);
        // What was measured before a command began is not held against it, nor is what it finds.
        let period = ledger.period();
        ledger.begin(&CgroupStats::default(), i32::MAX);
        assert_eq!(ledger.judge(&quota, Usage { bytes: 9000, ..Usage::default() }, period), None);
    }

    #[test]
    fn what_was_too_dear_to_measure_is_measured_before_the_next_command() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(directory.path().join(name), vec![1; 3 << 20]).unwrap();
        let bounds = SandboxLimits { disk_bytes: 2 << 20, disk_files: 100, ..BOUNDS };
        let ledger = Ledger::new(bounds);
        ledger.bound_disk(Quota::total(vec![directory.path().to_owned()], &bounds, None));
        let stats = CgroupStats::default();
        let over = [Reached::DiskBytes { bytes: 2 << 20 }];
        let dear = || ledger.entries().took = CHEAP * 2;
        dear();
        write("unseen");
        assert!(ledger.reached(&stats, i32::MAX, false).is_empty());
        ledger.begin(&stats, i32::MAX);
        assert!(ledger.reached(&stats, i32::MAX, true).is_empty(), "an earlier command's");
        dear();
        ledger.begin(&stats, i32::MAX);
        write("own");
        assert_eq!(ledger.reached(&stats, i32::MAX, true), over);
        // Where it is cheap, one that succeeds is told as well.
        ledger.entries().took = Duration::ZERO;
        ledger.begin(&stats, i32::MAX);
        write("more");
        assert_eq!(ledger.reached(&stats, i32::MAX, false), over);
    }
}
