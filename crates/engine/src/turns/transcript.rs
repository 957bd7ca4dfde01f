//! What a command says, as text: both streams in the order in which they arrived, decoded as they come, invalid bytes
//! replaced and counted, and beyond 1 MiB the head and the tail with the omission stated between them.

use std::fmt::Write as _;

use stead_domain::ports::OutputStream;

/// Bytes of text kept from the beginning.
const HEAD: usize = 512 << 10;
/// Bytes of text kept from the end.
const TAIL: usize = 512 << 10;

/// Decodes one stream piece by piece: a character that is split between pieces comes out whole.
#[derive(Debug, Default)]
struct Decoder {
    pending: Vec<u8>,
    replaced: u64,
}

impl Decoder {
    fn push(&mut self, bytes: &[u8], text: &mut String) {
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
                Ok(good) => return text.push_str(good),
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    text.push_str(std::str::from_utf8(good).unwrap_or_default());
                    let Some(length) = error.error_len() else {
                        self.pending = bad.to_vec();
                        return;
                    };
                    self.replaced += length as u64;
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &bad[length..];
                }
            }
        }
    }

    fn finish(&mut self, text: &mut String) {
        if !self.pending.is_empty() {
            self.replaced += self.pending.len() as u64;
            self.pending.clear();
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// The text of a turn's message, as it grows.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    stdout: Decoder,
    stderr: Decoder,
    head: String,
    tail: String,
    omitted: u64,
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

impl Transcript {
    /// Takes a piece of output; returns the text that a live reader may be shown now. What lies beyond the head is shown
    /// when the end is known.
    pub(crate) fn push(&mut self, stream: OutputStream, bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len());
        match stream {
            OutputStream::Stdout => self.stdout.push(bytes, &mut text),
            OutputStream::Stderr => self.stderr.push(bytes, &mut text),
        }
        self.keep(text)
    }

    fn keep(&mut self, mut text: String) -> String {
        let room = if self.tail.is_empty() && self.omitted == 0 { HEAD.saturating_sub(self.head.len()) } else { 0 };
        let mut cut = room.min(text.len());
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        self.tail.push_str(&text[cut..]);
        text.truncate(cut);
        self.head.push_str(&text);
        // The tail is trimmed in big steps, so that each byte is moved once on average.
        if self.tail.len() > 2 * TAIL {
            self.trim();
        }
        text
    }

    fn trim(&mut self) {
        let mut cut = self.tail.len().saturating_sub(TAIL);
        while !self.tail.is_char_boundary(cut) {
            cut += 1;
        }
        self.omitted += cut as u64;
        self.tail.drain(..cut);
    }

    /// The output is over.
    pub(crate) fn finish(mut self) -> Finished {
        let mut text = String::new();
        self.stdout.finish(&mut text);
        self.stderr.finish(&mut text);
        self.keep(text);
        self.trim();
        let mut text = self.head;
        if self.omitted > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n[… {} bytes omitted …]\n", self.omitted);
        }
        text.push_str(&self.tail);
        Finished { text, omitted: self.omitted, replaced: self.stdout.replaced + self.stderr.replaced }
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
