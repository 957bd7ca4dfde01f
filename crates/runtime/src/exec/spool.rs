//! Output of a named command that is not acknowledged, in the order in which it was read.
//!
//! Both streams together are one sequence of bytes, numbered from the command's beginning:
//!
//! ```text
//! 0 ........ acknowledged ........ sent ........ written
//!   forgotten            kept, sent     kept, not sent
//! ```

use std::collections::VecDeque;

use stead_link::Kind;
use stead_link::frame::{FRAME_COST, LARGE_WINDOW};

/// Bytes of one stream that follow each other.
struct Segment {
    kind: Kind,
    length: usize,
}

/// What is kept, and how far it has been sent.
pub(super) struct Spool {
    bytes: VecDeque<u8>,
    /// What the bytes are, from the first kept one on; never empty ones, and never two of a kind in a row.
    segments: VecDeque<Segment>,
    acknowledged: u64,
    written: u64,
    /// The segment that was sent last, and how much of it was. The first byte not sent is in it or begins the one after it.
    next: (usize, usize),
    sent: u64,
    /// What it may hold, in bytes, segments counting as frames do.
    capacity: usize,
}

/// The byte is not one that can be sent or acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("byte {byte} is not between {first} and {last}, what was acknowledged and what there is")]
pub(crate) struct OutOfRange {
    byte: u64,
    first: u64,
    last: u64,
}

impl Spool {
    pub(super) fn new() -> Self {
        Self {
            bytes: VecDeque::new(),
            segments: VecDeque::new(),
            acknowledged: 0,
            written: 0,
            next: (0, 0),
            sent: 0,
            capacity: LARGE_WINDOW,
        }
    }

    /// Changes what it may hold. What is there stays, whether or not it is more.
    pub(super) fn resize(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// How many bytes may be pushed; `None` when it is full.
    pub(super) fn room(&self) -> Option<usize> {
        let cost = self.bytes.len() + (self.segments.len() + 1) * FRAME_COST;
        self.capacity.checked_sub(cost).filter(|room| *room > 0)
    }

    /// Appends bytes, no more than there is room for.
    pub(super) fn push(&mut self, kind: Kind, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match self.segments.back_mut() {
            Some(last) if last.kind == kind => last.length += bytes.len(),
            _ => self.segments.push_back(Segment { kind, length: bytes.len() }),
        }
        self.bytes.extend(bytes);
        self.written += bytes.len() as u64;
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn is_sent(&self) -> bool {
        self.sent == self.written
    }

    pub(super) fn is_acknowledged(&self) -> bool {
        self.acknowledged == self.written
    }

    /// The next bytes to send, of one stream and at most `most`, in two parts; they count as sent. `None` when all were.
    pub(super) fn send(&mut self, most: usize) -> Option<(Kind, [&[u8]; 2])> {
        let (mut index, mut done) = self.next;
        if self.segments.get(index)?.length == done {
            // It was the last one when it was sent, and has not grown.
            (index, done) = (index + 1, 0);
        }
        let segment = self.segments.get(index)?;
        let left = segment.length - done;
        if most == 0 {
            return None;
        }
        let length = left.min(most);
        // Less than what is kept, which fits into memory.
        let start = (self.sent - self.acknowledged) as usize;
        self.sent += length as u64;
        self.next = (index, done + length);
        let (front, back) = self.bytes.as_slices();
        let end = start + length;
        let cut = front.len();
        let parts = [&front[start.min(cut)..end.min(cut)], &back[start.max(cut) - cut..end.max(cut) - cut]];
        Some((segment.kind, parts))
    }

    /// Has everything from this byte on sent (again).
    pub(super) fn rewind(&mut self, byte: u64) -> Result<(), OutOfRange> {
        self.check(byte)?;
        let mut skip = (byte - self.acknowledged) as usize;
        let mut index = 0;
        while let Some(segment) = self.segments.get(index).filter(|segment| segment.length < skip) {
            skip -= segment.length;
            index += 1;
        }
        self.next = (index, skip);
        self.sent = byte;
        Ok(())
    }

    /// Forgets what comes before this byte. One that was acknowledged before is no error: messages may cross.
    pub(super) fn acknowledge(&mut self, byte: u64) -> Result<(), OutOfRange> {
        if byte <= self.acknowledged {
            return Ok(());
        }
        if byte > self.sent {
            return Err(self.out_of_range(byte, self.sent));
        }
        let mut gone = (byte - self.acknowledged) as usize;
        self.bytes.drain(..gone);
        self.acknowledged = byte;
        while let Some(first) = self.segments.front_mut() {
            let whole = first.length <= gone;
            let part = first.length.min(gone);
            first.length -= part;
            gone -= part;
            // What was sent of the segment that was sent last has become less.
            let (index, done) = self.next;
            if index == 0 {
                self.next = (0, done - part);
            }
            if !whole {
                break;
            }
            self.segments.pop_front();
            self.next.0 = self.next.0.saturating_sub(1);
        }
        Ok(())
    }

    /// Gives memory back that holds nothing.
    pub(super) fn rest(&mut self) {
        self.bytes.shrink_to_fit();
        self.segments.shrink_to_fit();
    }

    /// Whether output can be sent from this byte on.
    pub(super) fn check(&self, byte: u64) -> Result<(), OutOfRange> {
        if (self.acknowledged..=self.written).contains(&byte) {
            Ok(())
        } else {
            Err(self.out_of_range(byte, self.written))
        }
    }

    fn out_of_range(&self, byte: u64, last: u64) -> OutOfRange {
        OutOfRange { byte, first: self.acknowledged, last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Push(bool, usize),
        Send(usize),
        /// In thousandths of the way from what was acknowledged to what was sent.
        Acknowledge(u64),
        /// In thousandths of the way from what was acknowledged to what there is.
        Rewind(u64),
        Resize(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (any::<bool>(), 0_usize..3000).prop_map(|(error, length)| Step::Push(error, length)),
            4 => (0_usize..2000).prop_map(Step::Send),
            2 => (0_u64..=1000).prop_map(Step::Acknowledge),
            1 => (0_u64..=1000).prop_map(Step::Rewind),
            1 => (100_usize..20_000).prop_map(Step::Resize),
        ]
    }

    fn kind(error: bool) -> Kind {
        if error { Kind::DataError } else { Kind::Data }
    }

    proptest! {
        /// The model is everything that was ever pushed.
        #[test]
        fn what_is_sent_is_what_was_pushed(steps in prop::collection::vec(step(), 1..200)) {
            let mut spool = Spool::new();
            let mut model: Vec<(Kind, u8)> = Vec::new();
            let (mut sent, mut acknowledged) = (0_u64, 0_u64);
            for step in steps {
                match step {
                    Step::Push(error, length) => {
                        let length = length.min(spool.room().unwrap_or(0));
                        let bytes: Vec<u8> = (0..length).map(|index| (model.len() + index) as u8).collect();
                        spool.push(kind(error), &bytes);
                        model.extend(bytes.into_iter().map(|byte| (kind(error), byte)));
                    }
                    Step::Send(most) => {
                        let portion = spool.send(most);
                        prop_assert_eq!(portion.is_none(), most == 0 || sent == model.len() as u64);
                        for (kind, byte) in portion.into_iter().flat_map(|(kind, parts)| {
                            parts.concat().into_iter().map(move |byte| (kind, byte))
                        }) {
                            prop_assert_eq!((kind, byte), model[sent as usize]);
                            sent += 1;
                        }
                    }
                    Step::Acknowledge(part) => {
                        acknowledged += (sent - acknowledged) * part / 1000;
                        prop_assert!(spool.acknowledge(acknowledged).is_ok());
                        prop_assert!(spool.acknowledge(sent + 1).is_err());
                    }
                    Step::Rewind(part) => {
                        sent = acknowledged + (model.len() as u64 - acknowledged) * part / 1000;
                        prop_assert!(spool.rewind(sent).is_ok());
                        prop_assert!(spool.rewind(model.len() as u64 + 1).is_err());
                        prop_assert!(acknowledged == 0 || spool.rewind(acknowledged - 1).is_err());
                    }
                    Step::Resize(capacity) => spool.resize(capacity),
                }
                prop_assert_eq!(spool.written(), model.len() as u64);
                prop_assert_eq!(spool.is_sent(), sent == model.len() as u64);
                prop_assert_eq!(spool.is_acknowledged(), acknowledged == model.len() as u64);
                prop_assert!(spool.bytes.len() + spool.segments.len() * FRAME_COST <= LARGE_WINDOW);
            }
            // What is left comes out whole.
            while let Some((kind, parts)) = spool.send(usize::MAX) {
                for byte in parts.concat() {
                    prop_assert_eq!((kind, byte), model[sent as usize]);
                    sent += 1;
                }
            }
            prop_assert_eq!(sent, model.len() as u64);
        }
    }
}
