//! Soft bounds on disk: where the file system has no quota, what a sandbox holds is measured from time to time, and its
//! processes are ended when that is too much. Files count that have lost their name and are still open. The others stay, so
//! that they can be looked at and removed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stead_domain::limit::Reached;
use stead_domain::ports::SandboxLimits;
use stead_sandbox::disk::{self, Usage};
use stead_sandbox::unlinked::unlinked;

use crate::host::blocking;
use crate::processes;
use crate::sandbox::Sandbox;

/// The least time between two looks.
const PAUSE: Duration = Duration::from_secs(2);
/// The most time between two looks at a sandbox in which nothing runs. A command that begins has it looked at as usual.
const IDLE_PAUSE: Duration = Duration::from_secs(10);
/// The most time between two looks.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Growth that is no more than what programs always write, in bytes.
const USUAL_GROWTH: u64 = 16 << 20;
/// A look that takes long is followed by a pause this many times as long.
const PAUSE_PER_LOOK: u32 = 20;

/// What a sandbox may hold.
#[derive(Debug, Clone)]
pub(crate) struct Quota {
    directories: Vec<PathBuf>,
    /// What may be there, with what was there before.
    bytes: u64,
    files: u64,
    /// What may be written.
    limits: SandboxLimits,
    /// The launcher, where it has to measure: a service that is an ordinary user cannot enter what a tenant has shut.
    measurer: Option<PathBuf>,
    /// What was there when it was made, and how long it took to measure that.
    before: (Usage, Duration),
}

impl Quota {
    /// Bounds everything in the directories, with what they hold now. Blocking.
    pub(crate) fn total(directories: Vec<PathBuf>, limits: &SandboxLimits, measurer: Option<PathBuf>) -> Self {
        let (bytes, files, before) = (limits.disk_bytes, limits.disk_files, (Usage::default(), Duration::ZERO));
        let mut quota = Self { directories, bytes, files, limits: *limits, measurer, before };
        let began = Instant::now();
        quota.before = (quota.measure(), began.elapsed());
        quota
    }

    /// Bounds what is added to what the directories hold now. Blocking.
    pub(crate) fn growth(directories: Vec<PathBuf>, limits: &SandboxLimits, measurer: Option<PathBuf>) -> Self {
        let mut quota = Self::total(directories, limits, measurer);
        let (before, _) = quota.before;
        quota.bytes = quota.bytes.saturating_add(before.bytes);
        quota.files = quota.files.saturating_add(before.inodes);
        quota
    }

    /// What was there when it was made, and how long it took to measure that.
    pub(crate) fn before(&self) -> (Usage, Duration) {
        self.before
    }

    /// What is there. Blocking. A directory that cannot be measured counts as too deep to measure.
    pub(crate) fn measure(&self) -> Usage {
        if let Some(launcher) = &self.measurer {
            return disk::usage_as_owner(launcher, &self.directories).unwrap_or_else(|error| {
                tracing::warn!(%error, "could not measure a sandbox's directories");
                Usage { unvisited: 1, ..Usage::default() }
            });
        }
        let mut sum = Usage::default();
        for directory in &self.directories {
            match disk::usage(directory) {
                Ok(usage) => {
                    sum.bytes += usage.bytes;
                    sum.inodes += usage.inodes;
                    sum.unvisited += usage.unvisited;
                }
                Err(error) => {
                    tracing::warn!(directory = %directory.display(), %error, "could not measure a directory");
                    sum.unvisited += 1;
                }
            }
        }
        sum
    }

    /// Whether less than `reserve` bytes are left where it writes: the service needs room to record what happens, and to start.
    fn shortage(&self, reserve: u64) -> Option<Reached> {
        let found = rustix::fs::statvfs(self.directories.first()?).ok()?;
        let left = found.f_bavail.saturating_mul(found.f_frsize);
        (left < reserve).then_some(Reached::DiskShort { reserve })
    }

    /// What is too much about it.
    pub(crate) fn verdict(&self, usage: &Usage) -> Option<Reached> {
        if usage.bytes > self.bytes {
            Some(Reached::DiskBytes { bytes: self.limits.disk_bytes })
        } else if usage.inodes > self.files {
            Some(Reached::DiskFiles { files: self.limits.disk_files })
        } else {
            (usage.unvisited > 0).then_some(Reached::DiskDepth)
        }
    }
}

/// How much a sandbox has written since there was last room enough, so that it is not held against one that many wrote a little.
#[derive(Debug)]
struct Growth {
    before: u64,
}

impl Growth {
    /// The shortage, if this one has its part in it. What it has then is not held against the commands that come later.
    fn judge(&mut self, bytes: u64, shortage: Option<Reached>) -> Option<Reached> {
        let is_usual = bytes.saturating_sub(self.before) <= USUAL_GROWTH;
        if is_usual && shortage.is_some() {
            self.before = self.before.min(bytes);
            return None;
        }
        self.before = bytes;
        shortage
    }
}

/// Looks until the sandbox has ended. A sandbox that used no processor time since the last look has written nothing; where nobody
/// counts that, every look is taken. What is seen of an earlier command is not held against the one that has begun meanwhile.
pub(crate) async fn watch(sandbox: Arc<Sandbox>, quota: Quota) {
    let quota = Arc::new(quota);
    let mut pause = PAUSE;
    let mut processor_time = None;
    let (at_first, _) = quota.before();
    let mut growth = Growth { before: at_first.bytes };
    loop {
        let mut next = Instant::now() + pause;
        loop {
            tokio::select! {
                () = sandbox.ended() => return,
                // Brought forward and never put off, so that commands in quick succession keep nobody from looking.
                () = sandbox.stirred() => next = next.min(Instant::now() + PAUSE),
                () = tokio::time::sleep_until(next.into()) => break,
            }
        }
        let period = sandbox.ledger.period();
        let (watched, bounds) = (Arc::clone(&sandbox), Arc::clone(&quota));
        let look = blocking(move || {
            let used = watched.stats().cpu_micros;
            if used.is_some() && used == processor_time {
                return Ok(None);
            }
            let began = Instant::now();
            let processes = watched.processes();
            let held = unlinked(&processes);
            let uncounted = processes::judge(&watched.host.cgroups, &processes, &bounds.limits);
            let mut usage = bounds.measure();
            usage.bytes += held.bytes;
            usage.inodes += held.inodes;
            Ok(Some((used, usage, uncounted, began.elapsed())))
        });
        let Ok(Some((used, usage, uncounted, took))) = look.await else {
            // A thousand that sleep are no work.
            pause = (pause * 2).min(IDLE_PAUSE);
            continue;
        };
        processor_time = used;
        let short = growth.judge(usage.bytes, quota.shortage(sandbox.host.config.disk_reserve));
        pause = (took * PAUSE_PER_LOOK).clamp(PAUSE, LONGEST_PAUSE);
        if sandbox.ledger.period() != period {
            // What the look was taken for may be over; the next one must not be spared.
            processor_time = None;
            continue;
        }
        let (disk, crowd) = (sandbox.ledger.judge(&quota, usage, period), uncounted.processes);
        crowd.into_iter().for_each(|limit| sandbox.ledger.note(limit));
        let Some(limit) = uncounted.memory.or(disk).or(short) else { continue };
        tracing::warn!(name = sandbox.name, ?usage, ?limit, "a sandbox has more than it may; ending its processes");
        sandbox.ledger.note(limit);
        if let Ok(client) = sandbox.client().await {
            // A link that is lost here is lost for every command as well.
            let _ = client.kill_all().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_filled_the_disk_is_told_from_who_was_there() {
        let (short, mib) = (|| Some(Reached::DiskShort { reserve: 1 }), 1_u64 << 20);
        let mut growth = Growth { before: 100 * mib };
        // Before anybody has looked.
        assert_eq!(growth.judge(700 * mib, short()), short());
        assert_eq!(growth.judge(701 * mib, short()), None, "it was ended for that");
        // A little at a time, as soon as room is short.
        assert_eq!(growth.judge(710 * mib, short()), None);
        assert_eq!(growth.judge(718 * mib, short()), short());
        // Enough room, and what was written then is nobody's fault.
        assert_eq!(growth.judge(900 * mib, None), None);
        assert_eq!(growth.judge(901 * mib, short()), None);
        assert_eq!(growth.judge(10 * mib, short()), None);
        assert_eq!(growth.judge(30 * mib, short()), short());
    }
}
