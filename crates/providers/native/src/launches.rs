//! Whether launching sandboxes works, as far as the last ones tell.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How many failures in a row say that the machine is at fault, and not what was asked of it.
const FAILURES: u32 = 3;
/// How long they say so. After this it is worth another try, which tells more than a record.
const MEMORY: Duration = Duration::from_secs(15);

/// The last launches.
#[derive(Debug, Default)]
pub(crate) struct Launches(Mutex<Option<Failing>>);

#[derive(Debug, Clone, Copy)]
struct Failing {
    times: u32,
    last: Instant,
}

impl Launches {
    /// Notes how a launch of a sandbox of this kind went, and how long it took.
    pub(crate) fn note(&self, kind: &'static str, succeeded: bool, took: Duration) {
        let outcome = if succeeded { "launched" } else { "failed" };
        metrics::counter!("stead_sandbox_launches_total", "kind" => kind, "outcome" => outcome).increment(1);
        if succeeded {
            metrics::histogram!("stead_sandbox_launch_duration_seconds", "kind" => kind).record(took.as_secs_f64());
        }
        let duration_ms = took.as_millis() as u64;
        if succeeded {
            tracing::debug!(sandbox.kind = kind, duration_ms, "a sandbox was launched");
        }
        let mut failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let times = failing.map_or(1, |failing| failing.times.saturating_add(1));
        *failing = if succeeded { None } else { Some(Failing { times, last: Instant::now() }) };
    }

    /// Whether the next one may be expected to succeed.
    pub(crate) fn work(&self) -> bool {
        self.work_at(Instant::now())
    }

    fn work_at(&self, now: Instant) -> bool {
        let failing = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failing.is_none_or(|failing| failing.times < FAILURES || now.duration_since(failing.last) > MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_failures_in_a_row_tell_for_a_while() {
        let launches = Launches::default();
        let fail = || launches.note("session", false, Duration::ZERO);
        fail();
        fail();
        assert!(launches.work());
        launches.note("session", true, Duration::ZERO);
        fail();
        fail();
        assert!(launches.work());
        fail();
        assert!(!launches.work());
        assert!(launches.work_at(Instant::now() + MEMORY + Duration::from_secs(1)));
    }
}
