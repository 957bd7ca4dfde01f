//! Moments at which a test makes the process die, to show that what was recorded is carried out once all the same.
//!
//! `STEAD_CRASH_AT=<moment>[:<nth>]` aborts the process when the moment is reached for the nth time (1 without a number).
//! Without the variable this costs one comparison.

use std::sync::atomic::{AtomicU32, Ordering};

/// The one moment that this process shall not survive.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    moment: Option<String>,
    left: AtomicU32,
}

impl Faults {
    pub(crate) fn from_environment() -> Self {
        let Ok(text) = std::env::var("STEAD_CRASH_AT") else {
            return Self::default();
        };
        let (moment, nth) = text.split_once(':').map_or((text.as_str(), 1), |(m, n)| (m, n.parse().unwrap_or(1)));
        Self { moment: Some(moment.to_owned()), left: AtomicU32::new(nth) }
    }

    /// Dies here if this is the moment.
    pub(crate) fn point(&self, moment: &str) {
        let Some(chosen) = &self.moment else { return };
        if chosen == moment && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            tracing::error!(moment, "dying on request");
            std::process::abort();
        }
    }
}
