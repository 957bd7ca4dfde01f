//! How many lines one sandbox may have in the log: being refused costs a program nothing, and every line is on the operator's
//! disk. Counters go on.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines in one span of time.
const LINES: u32 = 100;
const SPAN: Duration = Duration::from_mins(1);

/// What to do with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Write,
    /// Write it, and say that there will be no more for a while.
    WriteLast,
    Leave,
}

/// The lines of one sandbox.
#[derive(Debug)]
pub(crate) struct Lines(Mutex<Span>);

#[derive(Debug)]
struct Span {
    since: Instant,
    used: u32,
}

impl Default for Lines {
    fn default() -> Self {
        Self(Mutex::new(Span { since: Instant::now(), used: 0 }))
    }
}

impl Lines {
    /// Asks for one line.
    pub(crate) fn take(&self) -> Line {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> Line {
        let mut span = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(span.since) >= SPAN {
            *span = Span { since: now, used: 0 };
        }
        if span.used >= LINES {
            return Line::Leave;
        }
        span.used += 1;
        if span.used == LINES { Line::WriteLast } else { Line::Write }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_does_not_fill_the_log() {
        let lines = Lines::default();
        let began = Instant::now();
        for round in 0..2 {
            let now = began + SPAN * round;
            let said: Vec<Line> = (0..5000).map(|_| lines.take_at(now)).filter(|line| *line != Line::Leave).collect();
            assert_eq!(said.len(), LINES as usize);
            assert_eq!(said.iter().position(|line| *line == Line::WriteLast), Some(said.len() - 1));
        }
    }
}
