//! `Range` (RFC 9110 §14): one range of bytes, or the whole.

use std::ops::Range;

/// What a `Range` asks for of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The whole file: none was asked for, several were, or what was asked for cannot be read.
    Whole,
    /// These bytes, at least one of them.
    Part(Range<u64>),
    /// Bytes that the file does not have.
    Beyond,
}

impl Wanted {
    /// What the header asks for of `length` bytes.
    pub(crate) fn parse(header: &str, length: u64) -> Self {
        Self::of(header, length).unwrap_or(Self::Whole)
    }

    fn of(header: &str, length: u64) -> Option<Self> {
        let (unit, set) = header.split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        // A list may have empty members; one with two real ones asks for several ranges.
        let mut members = set.split(',').map(str::trim).filter(|member| !member.is_empty());
        let (member, None) = (members.next()?, members.next()) else { return None };
        let (first, last) = member.split_once('-')?;
        if first.is_empty() {
            let suffix = number(last)?;
            return Some(match (suffix, length) {
                (0, _) => Self::Beyond,
                // The last bytes of nothing are nothing, which no partial answer can say.
                (_, 0) => Self::Whole,
                _ => Self::Part(length.saturating_sub(suffix)..length),
            });
        }
        let first = number(first)?;
        let last = if last.is_empty() { u64::MAX } else { number(last)? };
        if last < first {
            return None;
        }
        Some(if first < length { Self::Part(first..last.saturating_add(1).min(length)) } else { Self::Beyond })
    }
}

/// Digits and nothing else; a number that is too large for any file stays one.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_cannot_be_read_or_names_several_is_the_whole() {
        for header in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=3-2",
            "bytes=+1-2",
            "bytes=1-2-3",
            "items=0-1",
            "bytes=0-1,3-4",
            "bytes=0-1,x",
            "0-1",
            "bytes 0-1",
            "bytes=0 - 1",
        ] {
            assert_eq!(Wanted::parse(header, 10), Wanted::Whole, "{header}");
        }
        for (header, part) in [
            ("bytes=0-0", 0..1),
            ("Bytes = 2-", 2..10),
            ("bytes=,2-3, ,", 2..4),
            ("bytes=9-99999999999999999999999", 9..10),
            ("bytes=-99999999999999999999999", 0..10),
        ] {
            assert_eq!(Wanted::parse(header, 10), Wanted::Part(part), "{header}");
        }
        for header in ["bytes=10-", "bytes=99999999999999999999999-", "bytes=-0"] {
            assert_eq!(Wanted::parse(header, 10), Wanted::Beyond, "{header}");
        }
        assert_eq!(Wanted::parse("bytes=-1", 0), Wanted::Whole);
        assert_eq!(Wanted::parse("bytes=0-", 0), Wanted::Beyond);
    }

    proptest! {
        /// The model goes through the bytes and asks of each whether the words of the protocol name it.
        #[test]
        fn a_range_is_the_bytes_that_its_words_name(
            length in 0..40_u64, first in prop::option::of(0..50_u64), last in prop::option::of(0..50_u64),
        ) {
            let show = |bound: Option<u64>| bound.map_or_else(String::new, |bound| bound.to_string());
            let named: Vec<u64> = (0..length).filter(|&byte| match (first, last) {
                (Some(first), last) => first <= byte && last.is_none_or(|last| byte <= last),
                (None, Some(suffix)) => byte >= length.saturating_sub(suffix),
                (None, None) => false,
            }).collect();
            let senseless = match (first, last) {
                (Some(first), Some(last)) => last < first,
                (None, Some(suffix)) => length == 0 && suffix > 0,
                (first, None) => first.is_none(),
            };
            let found = Wanted::parse(&format!("bytes={}-{}", show(first), show(last)), length);
            match found {
                Wanted::Whole => prop_assert!(senseless),
                Wanted::Beyond => prop_assert!(!senseless && named.is_empty()),
                Wanted::Part(part) => prop_assert_eq!((senseless, part.collect::<Vec<_>>()), (false, named)),
            }
        }

        #[test]
        fn whatever_is_sent_stays_within_the_file(header in "(bytes=)?[-0-9, a=]{0,30}", length in 0..30_u64) {
            if let Wanted::Part(part) = Wanted::parse(&header, length) {
                prop_assert!(part.start < part.end && part.end <= length);
            }
        }
    }
}
