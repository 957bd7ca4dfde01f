//! Which part of a long output is kept. Pure: the answer depends on the length alone, so a reader needs no record of
//! what a writer left out.

use std::ops::Range;

/// Keeps the first and the last bytes of an output, because a log's reason to be read is at one of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trim {
    /// How many bytes of the beginning are kept.
    pub(crate) head_bytes: u64,
    /// How many bytes of the end are kept.
    pub(crate) tail_bytes: u64,
}

/// The ranges that are kept of an output, by offset. They touch when nothing is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The beginning.
    pub(crate) head: Range<u64>,
    /// The end.
    pub(crate) tail: Range<u64>,
}

impl Trim {
    /// Keeps everything.
    pub(crate) const NONE: Self = Self { head_bytes: u64::MAX, tail_bytes: 0 };

    /// What is kept of `total` bytes.
    pub(crate) fn kept(&self, total: u64) -> Kept {
        let head_end = self.head_bytes.min(total);
        let tail_start = total.saturating_sub(self.tail_bytes).max(head_end);
        Kept { head: 0..head_end, tail: tail_start..total }
    }
}

impl Kept {
    /// How many bytes are left out between the two.
    pub(crate) fn omitted(&self) -> u64 {
        self.tail.start - self.head.end
    }

    /// Where reading goes on when `offset` is asked for, and how many bytes are skipped because they are left out.
    pub(crate) fn resume(&self, offset: u64) -> (u64, u64) {
        if offset >= self.head.end && offset < self.tail.start {
            (self.tail.start, self.tail.start - offset)
        } else {
            (offset, 0)
        }
    }

    /// The end of the stretch that can be read without a gap from `offset`.
    pub(crate) fn stretch_end(&self, offset: u64) -> u64 {
        if offset < self.head.end && self.omitted() > 0 { self.head.end } else { self.tail.end }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_is_left_out_before_both_ends_are_full() {
        let trim = Trim { head_bytes: 4, tail_bytes: 3 };
        for total in 0..=7 {
            assert_eq!(trim.kept(total).omitted(), 0, "{total}");
            assert_eq!(trim.kept(total).omitted(), 0);
        }
        let kept = trim.kept(10);
        assert_eq!((kept.head.clone(), kept.tail.clone(), kept.omitted()), (0..4, 7..10, 3));
        assert_eq!(kept.omitted(), 3);
        assert_eq!(kept.resume(4), (7, 3));
        assert_eq!(kept.resume(6), (7, 1));
        assert_eq!(kept.resume(7), (7, 0));
        assert_eq!((kept.stretch_end(1), kept.stretch_end(8)), (4, 10));
        assert_eq!(Trim::NONE.kept(u64::MAX).omitted(), 0);
    }

    proptest! {
        #[test]
        fn the_parts_add_up(head_bytes in 0_u64..50, tail_bytes in 0_u64..50, total in 0_u64..200) {
            let kept = Trim { head_bytes, tail_bytes }.kept(total);
            prop_assert_eq!(kept.head.end - kept.head.start + kept.omitted() + kept.tail.end - kept.tail.start, total);
            prop_assert!(kept.head.end <= head_bytes && kept.tail.end - kept.tail.start <= tail_bytes.max(total - kept.head.end));
            let longer = Trim { head_bytes, tail_bytes }.kept(total + 1);
            // What was once left out stays left out, so its bytes may be given back to the disk.
            prop_assert!(longer.tail.start >= kept.tail.start);
        }
    }
}
