//! Moments at which a test makes the process die, to show that what was recorded is carried out once all the same.
//!
//! `STEAD_CRASH_AT=<moment>[:<nth>]` kills the process when the moment is reached for the nth time (1 without a number), as
//! `kill -9` would: nothing of it runs any more, no handler and no destructor. A value with a `/` is the path of a file that
//! holds the same, so that a test can choose the moment while the server is at work; the count begins when the file says so.
//! Without the variable this costs one comparison.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Signal, getpid, kill_process};

/// Every moment that has a name, in the order in which work goes through them.
pub const MOMENTS: &[&str] = &[
    // Files of projects: bytes kept, then named by a commit.
    "source.stored",
    "source.committed",
    "import.stored",
    "import.committed",
    "import.opened",
    "import.fetched",
    "project.deleted",
    // Every commit: what it holds is decided, what it holds is kept.
    "commit.begun",
    "commit.done",
    // Builds.
    "build.admitted",
    "build.claimed",
    "build.laid_out",
    "build.step.opened",
    "build.step.ran",
    "build.step.kept",
    "build.step.committed",
    "build.worked",
    "build.ended",
    "build.cancelling",
    "version.activated",
    // Tasks.
    "turn.admitted",
    "turn.promoted",
    "turn.launched",
    "turn.output",
    "turn.ran",
    "turn.collected",
    "turn.stored",
    "turn.ended",
    "turn.cancelling",
    "turn.handed_over",
    "turn.taken_over",
    // Operations of environments.
    "create.recorded",
    "create.called",
    "create.settled",
    "start.recorded",
    "start.called",
    "start.settled",
    "stop.recorded",
    "stop.called",
    "stop.settled",
    "delete.recorded",
    "delete.called",
    "delete.settled",
    // What a deleted session leaves.
    "session.deleted",
    "session.emptied",
    "session.purged",
    // Collection.
    "collect.version.given_up",
    "collect.layer.removed",
    "collect.blobs.named",
    "collect.blobs.removed",
    // A start.
    "recovery.swept",
    "recovery.turn",
    "recovery.build",
    "recovery.done",
];

/// The one moment that this process shall not survive.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    chosen: Option<Chosen>,
    /// What was chosen last, and how often it was reached since.
    reached: Mutex<(String, u32)>,
}

#[derive(Debug)]
enum Chosen {
    /// This moment, so many times.
    Moment(String, u32),
    /// What the file says at the time.
    File(PathBuf),
}

fn read(text: &str) -> (&str, u32) {
    text.split_once(':').map_or((text, 1), |(moment, nth)| (moment, nth.parse().unwrap_or(1)))
}

impl Faults {
    pub(crate) fn from_environment() -> Self {
        let text = std::env::var("STEAD_CRASH_AT").ok().filter(|text| !text.is_empty());
        let chosen = text.map(|text| {
            if text.contains('/') {
                return Chosen::File(PathBuf::from(text));
            }
            let (moment, nth) = read(&text);
            Chosen::Moment(moment.to_owned(), nth)
        });
        Self { chosen, reached: Mutex::default() }
    }

    /// Dies here if this is the moment.
    pub(crate) fn point(&self, moment: &str) {
        debug_assert!(MOMENTS.contains(&moment), "{moment} is not listed");
        let Some(chosen) = &self.chosen else { return };
        let is_now = match chosen {
            Chosen::Moment(named, nth) => named == moment && self.is_nth(moment, *nth),
            Chosen::File(path) => std::fs::read_to_string(path).is_ok_and(|text| {
                let text = text.trim();
                let (named, nth) = read(text);
                named == moment && self.is_nth(text, nth)
            }),
        };
        if is_now {
            tracing::error!(moment, "dying on request");
            let _ = kill_process(getpid(), Signal::KILL);
            // Not reached: the signal is delivered before the call returns.
            std::process::abort();
        }
    }

    /// Counts; another choice begins anew.
    fn is_nth(&self, chosen: &str, nth: u32) -> bool {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        if reached.0 != chosen {
            *reached = (chosen.to_owned(), 0);
        }
        reached.1 += 1;
        reached.1 == nth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_listed_once_and_counted() {
        let mut sorted = MOMENTS.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), MOMENTS.len());
        assert_eq!(
            (read("turn.ran"), read("turn.ran:3"), read("turn.ran:x")),
            (("turn.ran", 1), ("turn.ran", 3), ("turn.ran", 1))
        );
        let faults = Faults::default();
        let count = |chosen: &str| (1..=3).map(|_| faults.is_nth(chosen, 2)).collect::<Vec<_>>();
        assert_eq!((count("turn.ran:2"), count("turn.ended:2")), (vec![false, true, false], vec![false, true, false]));
    }
}
