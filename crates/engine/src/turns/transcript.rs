//! What a command says, as text: both streams in the order in which they arrived, decoded as they come, invalid bytes
//! replaced and counted, and beyond 1 MiB the head and the tail with the omission stated between them.

use std::fmt::Write as _;

use stead_domain::ports::OutputStream;

/// Bytes of text kept from the beginning.
const HEAD: usize = 512 << 10;
/// Bytes of text kept from the end.
const TAIL: usize = 512 << 10;

/// What stands for bytes that are no text.
const REPLACEMENT: &str = "\u{fffd}";

/// Decodes one stream piece by piece: a character that is split between pieces comes out whole.
#[derive(Debug, Default)]
struct Decoder {
    pending: Vec<u8>,
    replaced: u64,
}

impl Decoder {
    /// Decodes a piece; `take` gets its text in order.
    fn push(&mut self, bytes: &[u8], mut take: impl FnMut(&str)) {
        let joined;
        let mut rest = if self.pending.is_empty() {
            bytes
        } else {
            self.pending.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.pending);
            joined.as_slice()
        };
        loop {
            match std::str::from_utf8(rest) {
                Ok(good) => return take(good),
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    take(std::str::from_utf8(good).unwrap_or_default());
                    let Some(length) = error.error_len() else {
                        self.pending = bad.to_vec();
                        return;
                    };
                    self.replaced += length as u64;
                    take(REPLACEMENT);
                    rest = &bad[length..];
                }
            }
        }
    }

    fn finish(&mut self, take: impl FnOnce(&str)) {
        if !self.pending.is_empty() {
            self.replaced += self.pending.len() as u64;
            self.pending.clear();
            take(REPLACEMENT);
        }
    }
}

/// The two ends of a text.
#[derive(Debug, Default)]
struct Ends {
    head: String,
    /// What came after the head and was not left out: `newer` follows `older`. When `newer` is a tail by itself it takes the place of
    /// `older`, so that no byte is moved twice.
    older: String,
    newer: String,
    omitted: u64,
}

/// The text of a turn's message, as it grows.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    stdout: Decoder,
    stderr: Decoder,
    ends: Ends,
}

/// A finished text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// The whole message.
    pub(crate) text: String,
    /// Bytes left out between head and tail.
    pub(crate) omitted: u64,
    /// Bytes that were no UTF-8.
    pub(crate) replaced: u64,
}

impl Ends {
    /// Takes text; returns what of it belongs to the head.
    fn take<'text>(&mut self, text: &'text str) -> &'text str {
        let room = if self.is_head() { HEAD.saturating_sub(self.head.len()) } else { 0 };
        let mut cut = room.min(text.len());
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        let (head, rest) = text.split_at(cut);
        self.head.push_str(head);
        self.newer.push_str(rest);
        if self.newer.len() >= TAIL {
            std::mem::swap(&mut self.older, &mut self.newer);
            self.omitted += self.newer.len() as u64;
            self.newer.clear();
        }
        head
    }

    /// Whether the head is all there is.
    fn is_head(&self) -> bool {
        self.older.is_empty() && self.newer.is_empty() && self.omitted == 0
    }

    /// The whole text, and how many bytes of it are left out.
    fn join(self) -> (String, u64) {
        // The newer part is shorter than a tail, so what is too much is in the older one.
        let mut cut = (self.older.len() + self.newer.len()).saturating_sub(TAIL);
        while !self.older.is_char_boundary(cut) {
            cut += 1;
        }
        let omitted = self.omitted + cut as u64;
        let mut text = self.head;
        if omitted > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n[… {omitted} bytes omitted …]\n");
        }
        text.push_str(&self.older[cut..]);
        text.push_str(&self.newer);
        (text, omitted)
    }
}

impl Transcript {
    /// Takes a piece of output; returns the text that a live reader may be shown now. What lies beyond the head is shown
    /// when the end is known.
    pub(crate) fn push(&mut self, stream: OutputStream, bytes: &[u8]) -> String {
        let mut shown = String::new();
        let decoder = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        decoder.push(bytes, |text| shown.push_str(self.ends.take(text)));
        shown
    }

    /// The output is over.
    pub(crate) fn finish(mut self) -> Finished {
        for decoder in [&mut self.stdout, &mut self.stderr] {
            decoder.finish(|text| {
                self.ends.take(text);
            });
        }
        let (text, omitted) = self.ends.join();
        Finished { text, omitted, replaced: self.stdout.replaced + self.stderr.replaced }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(pieces: &[(OutputStream, &[u8])]) -> Finished {
        let mut transcript = Transcript::default();
        for (stream, bytes) in pieces {
            transcript.push(*stream, bytes);
        }
        transcript.finish()
    }

    #[test]
    fn split_characters_come_out_whole_even_when_the_other_stream_speaks_in_between() {
        use OutputStream::{Stderr, Stdout};
        let euro = "€".as_bytes();
        let finished = whole(&[(Stdout, &euro[..1]), (Stderr, b"!"), (Stdout, &euro[1..]), (Stderr, &euro[..2])]);
        assert_eq!(finished, Finished { text: "!€\u{fffd}".into(), omitted: 0, replaced: 2 });
    }

    #[test]
    fn a_flood_keeps_head_and_tail_and_says_what_is_missing() {
        let line = b"0123456789abcdef";
        let mut transcript = Transcript::default();
        let count = (4 << 20) / line.len();
        let mut live = 0;
        for _ in 0..count {
            live += transcript.push(OutputStream::Stdout, line).len();
        }
        live += transcript.push(OutputStream::Stdout, b"END").len();
        let finished = transcript.finish();
        assert_eq!(live, HEAD);
        assert!(finished.text.starts_with("0123") && finished.text.ends_with("END"));
        assert_eq!(finished.omitted as usize, count * line.len() + 3 - HEAD - TAIL);
        assert!(finished.text.contains(&format!("[… {} bytes omitted …]", finished.omitted)));
    }

    proptest! {
        #[test]
        fn any_split_of_valid_text_is_that_text(text in "\\PC{0,200}", cuts in prop::collection::vec(0..600usize, 0..6)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut transcript = Transcript::default();
            let mut live = String::new();
            let mut from = 0;
            for to in cuts.into_iter().chain([bytes.len()]) {
                live += &transcript.push(OutputStream::Stdout, &bytes[from..to]);
                from = to;
            }
            prop_assert_eq!(&live, &text);
            prop_assert_eq!(transcript.finish().text, text);
        }
    }
}
