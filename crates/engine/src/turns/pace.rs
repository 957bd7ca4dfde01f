//! When text is shown to readers: at once after a silence, so that the first word of a task waits for nothing, and then at
//! intervals, so that a task that says much makes few events.

use std::time::Duration;

use tokio::time::Instant;

/// The least time between two events with text.
const INTERVAL: Duration = Duration::from_millis(50);

/// The pace of one turn.
#[derive(Debug, Default)]
pub(super) struct Pace {
    shown_at: Option<Instant>,
    due_at: Option<Instant>,
}

impl Pace {
    /// Notes that there is text to show.
    pub(super) fn said(&mut self, now: Instant) {
        let earliest = self.shown_at.map_or(now, |shown| now.max(shown + INTERVAL));
        self.due_at.get_or_insert(earliest);
    }

    /// Returns when text must be shown; never while there is none.
    pub(super) async fn due(&self) {
        match self.due_at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Notes that all text was shown.
    pub(super) fn shown(&mut self, now: Instant) {
        self.due_at = None;
        self.shown_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_text_is_shown_at_once_and_the_rest_at_intervals() {
        let mut pace = Pace::default();
        let begin = Instant::now();
        let mut now = begin;
        let mut at = Vec::new();
        for silence in [0, 10, 0, 200] {
            assert_eq!(pace.due_at, None, "nothing is left to show");
            now += Duration::from_millis(silence);
            pace.said(now);
            pace.said(now + Duration::from_millis(1));
            now = pace.due_at.unwrap();
            pace.shown(now);
            at.push(now.duration_since(begin).as_millis());
        }
        // Right away; an interval after that; an interval after that; right away after a long silence.
        assert_eq!(at, [0, 50, 100, 300]);
    }
}
