//! How many lines one sandbox may have in the log: being refused costs a program nothing, a small request little, and every
//! line is on the operator's disk. Counters go on.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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
pub(crate) struct Lines {
    /// The most lines in one span.
    bound: u32,
    span: Mutex<Span>,
}

#[derive(Debug)]
struct Span {
    since: Instant,
    used: u32,
}

impl Lines {
    /// At most so many lines a minute.
    pub(crate) fn a_minute(bound: u32) -> Self {
        Self { bound, span: Mutex::new(Span { since: Instant::now(), used: 0 }) }
    }

    /// Asks for one line.
    pub(crate) fn take(&self) -> Line {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> Line {
        let mut span = self.span.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(span.since) >= SPAN {
            *span = Span { since: now, used: 0 };
        }
        if span.used >= self.bound {
            return Line::Leave;
        }
        span.used += 1;
        if span.used == self.bound { Line::WriteLast } else { Line::Write }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_does_not_fill_the_log() {
        let lines = Lines::a_minute(100);
        let began = Instant::now();
        for round in 0..2 {
            let now = began + SPAN * round;
            let said: Vec<Line> = (0..5000).map(|_| lines.take_at(now)).filter(|line| *line != Line::Leave).collect();
            assert_eq!(said.len(), 100);
            assert_eq!(said.iter().position(|line| *line == Line::WriteLast), Some(said.len() - 1));
        }
    }
}
