//! Clocks for tests.

use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stead_domain::Timestamp;
use stead_domain::ports::Clock;

/// The machine's clock, for tests in which time passes by itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the adapter that tests take the time from")]
        let now = SystemTime::now();
        let since_epoch = now.duration_since(UNIX_EPOCH).expect("the machine's clock is past 1970");
        Timestamp::default().plus(since_epoch)
    }
}

/// A clock that stands until it is moved.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<Timestamp>,
}

impl ManualClock {
    /// Stands at `start`.
    pub fn at(start: Timestamp) -> Self {
        Self { now: Mutex::new(start) }
    }

    /// Moves on.
    pub fn advance(&self, duration: Duration) {
        let mut now = self.now.lock().expect("nobody panics while holding the time");
        *now = now.plus(duration);
    }
}

/// Stands at a round instant in the past of every machine.
impl Default for ManualClock {
    fn default() -> Self {
        Self::at(Timestamp::from_micros(1_700_000_000_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.lock().expect("nobody panics while holding the time")
    }
}
