//! What a caller has been given of a named command's output and has not acknowledged.

use std::collections::VecDeque;

use crate::frame;

/// The runtime is told in portions of this cost. It is less than the least room that a runtime gives a command, so a command that waits
/// for an acknowledgement is always one that a caller can give.
const PORTION: usize = frame::WINDOW / 8;

/// The frames that are not acknowledged, and what is acknowledged and not told.
pub(super) struct Pending {
    /// Where each ends in the output, and what it costs. One window is all there can be.
    frames: VecDeque<(u64, usize)>,
    /// The highest acknowledgement.
    acknowledged: u64,
    untold: usize,
}

impl Pending {
    pub(super) fn new(position: u64) -> Self {
        Self { frames: VecDeque::new(), acknowledged: position, untold: 0 }
    }

    /// Takes note of a frame that was given to the caller.
    pub(super) fn arrived(&mut self, end: u64, cost: usize) {
        self.frames.push_back((end, cost));
    }

    /// Takes note of an acknowledgement; answers whether the runtime must hear of it.
    pub(super) fn acknowledged(&mut self, bytes: u64) -> bool {
        if bytes <= self.acknowledged {
            return false;
        }
        self.acknowledged = bytes;
        while let Some((_, cost)) = self.frames.pop_front_if(|(end, _)| *end <= bytes) {
            self.untold += cost;
        }
        let tell = self.untold >= PORTION;
        if tell {
            self.untold = 0;
        }
        tell
    }
}
