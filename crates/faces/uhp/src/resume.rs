//! Going on with a stream behind an event of it (UHP §8, `Last-Event-ID`).
//!
//! The log of a turn keeps the pieces of a text only until the text is whole, so the number of an event does not say for ever
//! where it stood. The id that goes with each event does: beside the number it has the event's place in the output, which is the
//! same whatever pieces the text comes in.
//!
//! ```text
//! 17.1.2.120.9f3a2b1c07d5      number . item . step . bytes of the text by then . what they were, and a sum over all of this
//! ```
//!
//! The sum is there so that a damaged id is refused and not taken for one of a text that has become another.
//!
//! A stream that goes on is made from the beginning, and what stands at that place or before it is left out; of a piece that goes
//! across it, the rest is sent. A bare number is understood as well while the turn runs, and for the events before any text
//! afterwards; behind other events of a turn that has ended it is refused as expired, never answered with a gap.

use std::fmt;

use crate::errors::Failure;
use crate::wire::event::{Event, EventKind};

/// The place of the last event of a stream.
const END: Position = Position { item: u32::MAX, step: 0, bytes: 0 };

/// The numbers that every stream of a turn begins with, whatever became of its deltas: two of the response, two of its first item.
const SAME_IN_ALL: u64 = 3;

/// The place of an event in the output of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    /// 0 before the first item.
    item: u32,
    step: u8,
    /// Of a text, how much of it is said with the event; of an annotation, its index.
    bytes: u64,
}

/// The step of the pieces of a text.
const PIECE: u8 = 2;

/// What a stream has said of one text, as a number (FNV-1a). It tells texts apart that differ by accident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Said(u32);

impl Said {
    const NOTHING: Self = Self(0x811c_9dc5);

    fn and(self, text: &str) -> Self {
        Self(text.bytes().fold(self.0, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)))
    }
}

/// An event that a client has seen, as its id says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    number: u64,
    place: Option<(Position, Said)>,
}

impl Seen {
    /// Reads an id, or a bare number.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('.');
        let number = plain(parts.next()?)?;
        let Some(item) = parts.next() else { return Some(Self { number, place: None }) };
        let position = Position {
            item: u32::try_from(plain(item)?).ok()?,
            step: u8::try_from(plain(parts.next()?)?).ok()?,
            bytes: plain(parts.next()?)?,
        };
        let said = Said(u32::from_str_radix(parts.next()?.get(..8)?, 16).ok()?);
        let seen = Self { number, place: Some((position, said)) };
        // What was written is what is read: nothing but that has its sum.
        (seen.to_string() == text.trim()).then_some(seen)
    }

    /// Refuses what cannot be gone on behind, in a turn that has ended or has not.
    pub(crate) fn check(&self, is_ended: bool) -> Result<(), Failure> {
        if self.place.is_none() && is_ended && self.number > SAME_IN_ALL {
            return Err(Failure::expired_event());
        }
        Ok(())
    }
}

/// A number in digits alone.
fn plain(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number: Option<u64> = if digits { text.parse().ok() } else { None };
    number.filter(|number| *number < u64::MAX)
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((Position { item, step, bytes }, Said(said))) = self.place else {
            return write!(f, "{}", self.number);
        };
        let plain = format!("{}.{item}.{step}.{bytes}.{said:08x}", self.number);
        let Said(sum) = Said::NOTHING.and(&plain);
        write!(f, "{plain}{:04x}", (sum >> 16) ^ (sum & 0xffff))
    }
}

/// What of a stream that is made from the beginning is sent.
#[derive(Debug)]
pub(crate) struct Sequel {
    seen: Option<Seen>,
    /// Where the stream stands, and what it has said of the text there.
    position: Position,
    said: Said,
    /// The number of the next event that is sent.
    next: u64,
    /// The item whose text is another than the client was told: its pieces would not fit, and the whole text comes anyway.
    other: Option<u32>,
}

impl Sequel {
    /// All of it, or what stands behind an event.
    pub(crate) fn new(seen: Option<Seen>) -> Self {
        let next = seen.map_or(0, |seen| seen.number + 1);
        Self { seen, position: Position { item: 0, step: 0, bytes: 0 }, said: Said::NOTHING, next, other: None }
    }

    /// The event as it is sent, with its id; none when it is left out.
    pub(crate) fn pass(&mut self, mut event: Event) -> Option<(Event, Seen)> {
        let (before, said_before) = (self.position, self.said);
        self.move_to(&event.kind);
        if let Some(seen) = self.seen
            && !self.is_new(seen, &mut event, before, said_before)
        {
            return None;
        }
        event.sequence_number = self.next;
        self.next += 1;
        let seen = Seen { number: event.sequence_number, place: Some((self.position, self.said)) };
        Some((event, seen))
    }

    fn move_to(&mut self, kind: &EventKind) {
        let item = |index: &usize| u32::try_from(*index).unwrap_or(u32::MAX - 2) + 1;
        let at = |item, step, bytes| Position { item, step, bytes };
        self.position = match kind {
            EventKind::Created { .. } => at(0, 0, 0),
            EventKind::InProgress { .. } => at(0, 1, 0),
            EventKind::ItemAdded { output_index, .. } => {
                self.said = Said::NOTHING;
                at(item(output_index), 0, 0)
            }
            EventKind::PartAdded { place, .. } => at(item(&place.output_index), 1, 0),
            EventKind::TextDelta { place, delta } => {
                self.said = self.said.and(delta);
                let said = if self.position.step == PIECE { self.position.bytes } else { 0 };
                at(item(&place.output_index), PIECE, said + delta.len() as u64)
            }
            EventKind::AnnotationAdded { place, annotation_index, .. } => {
                at(item(&place.output_index), 3, *annotation_index as u64)
            }
            EventKind::TextDone { place, .. } => at(item(&place.output_index), 4, 0),
            EventKind::PartDone { place, .. } => at(item(&place.output_index), 5, 0),
            EventKind::ItemDone { output_index, .. } => at(item(output_index), 6, 0),
            // A fault stands where it happened.
            EventKind::Error { .. } => self.position,
            EventKind::Completed { .. } | EventKind::Incomplete { .. } | EventKind::Failed { .. } => END,
        };
    }

    /// Whether an event stands behind what was seen. Of a piece that goes across it, what was seen is taken off.
    fn is_new(&mut self, seen: Seen, event: &mut Event, before: Position, said_before: Said) -> bool {
        let Some((place, said)) = seen.place else {
            // The end is told to whoever has not been told it: a turn that runs has not ended for anybody.
            return event.sequence_number > seen.number || event.kind.is_terminal();
        };
        if matches!(event.kind, EventKind::Error { .. }) {
            return self.position >= place;
        }
        if self.position <= place {
            if self.position == place && place.step == PIECE && self.said != said {
                self.other = Some(place.item);
            }
            return false;
        }
        let EventKind::TextDelta { delta, .. } = &mut event.kind else { return true };
        if self.other == Some(self.position.item) {
            return false;
        }
        let begun = if before.item == self.position.item && before.step == PIECE { before.bytes } else { 0 };
        if place.item != self.position.item || place.step != PIECE || place.bytes <= begun {
            return true;
        }
        let cut = usize::try_from(place.bytes - begun).unwrap_or(usize::MAX);
        match delta.split_at_checked(cut) {
            Some((told, rest)) if said_before.and(told) == said => {
                *delta = rest.to_owned();
                true
            }
            _ => {
                self.other = Some(self.position.item);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::event::Place;
    use crate::wire::response::{ContentPart, OutputItem};

    fn place() -> Place {
        Place { item_id: "i".to_owned(), output_index: 0, content_index: 0 }
    }

    /// A stream whose text comes in these pieces.
    fn stream(pieces: &[&str]) -> Vec<Event> {
        let item = |status| OutputItem::Message { id: "i".to_owned(), status, role: "assistant", content: Vec::new() };
        let part = || ContentPart::OutputText { text: String::new(), annotations: Vec::new() };
        let mut kinds = vec![
            EventKind::ItemAdded { output_index: 0, item: item("in_progress") },
            EventKind::PartAdded { place: place(), part: part() },
        ];
        kinds.extend(pieces.iter().map(|text| EventKind::TextDelta { place: place(), delta: (*text).to_owned() }));
        kinds.push(EventKind::TextDone { place: place(), text: pieces.concat() });
        kinds.push(EventKind::PartDone { place: place(), part: part() });
        kinds.push(EventKind::ItemDone { output_index: 0, item: item("completed") });
        let number = |(number, kind)| Event { kind, sequence_number: number as u64 };
        kinds.into_iter().enumerate().map(number).collect()
    }

    fn sent(seen: Option<Seen>, pieces: &[&str]) -> Vec<(Event, Seen)> {
        let mut sequel = Sequel::new(seen);
        stream(pieces).into_iter().filter_map(|event| sequel.pass(event)).collect()
    }

    fn text(events: &[(Event, Seen)]) -> String {
        let delta = |(event, _): &(Event, Seen)| match &event.kind {
            EventKind::TextDelta { delta, .. } => Some(delta.clone()),
            _ => None,
        };
        events.iter().filter_map(delta).collect()
    }

    #[test]
    fn a_stream_goes_on_exactly_behind_each_event_whatever_pieces_the_text_has_by_then() {
        let live = ["he", "ll", "\u{f6}", " you"];
        let whole = sent(None, &live);
        let said = text(&whole);
        for again in [&live[..], &["hell\u{f6} you"], &["h", "ell\u{f6} ", "you"]] {
            for cut in 0..whole.len() {
                let (first, last) = (&whole[..=cut], whole[cut].1);
                let seen = Seen::parse(&last.to_string()).unwrap();
                assert_eq!(seen, last);
                let rest = sent(Some(seen), again);
                assert_eq!(text(first) + &text(&rest), said, "{again:?} after {seen}");
                let numbers = first.iter().chain(&rest).map(|(event, _)| event.sequence_number);
                assert!(numbers.eq(0..(first.len() + rest.len()) as u64));
                let done = |events: &[(Event, Seen)]| {
                    events.iter().filter(|(event, _)| matches!(event.kind, EventKind::ItemDone { .. })).count()
                };
                assert_eq!(done(first) + done(&rest), 1);
            }
        }
    }

    #[test]
    fn a_text_that_has_become_another_is_not_continued_with_what_does_not_fit() {
        let whole = sent(None, &["abc", "def"]);
        for again in [&["xyz", "def"][..], &["xyzdef"], &["ab"], &["\u{20ac}uro"]] {
            let rest = sent(Some(whole[2].1), again);
            assert_eq!(text(&rest), "", "{again:?}");
            assert!(rest.iter().any(|(event, _)| matches!(event.kind, EventKind::TextDone { .. })));
        }
    }

    #[test]
    fn bare_numbers_hold_while_a_turn_runs_and_what_is_no_id_is_none() {
        let seen = Seen::parse("3").unwrap();
        let rest = sent(Some(seen), &["a", "b", "c"]);
        assert_eq!((text(&rest).as_str(), rest[0].0.sequence_number), ("c", 4));
        assert!(seen.check(true).is_ok() && Seen::parse("4").unwrap().check(false).is_ok());
        assert!(Seen::parse("4").unwrap().check(true).is_err());
        let wrong =
            ["", "x", "-1", "1.2", "1.2.3.4", "1.2.3.4.zz", "1.1.2.3.0.5", "18446744073709551615", "1.1.999.0.0"];
        for wrong in wrong.into_iter().chain(["4.1.2.7.deadbeef", "4.1.2.7.deadbeef0000"]) {
            assert_eq!(Seen::parse(wrong), None, "{wrong}");
        }
        let id = sent(None, &["abc"])[2].1.to_string();
        for at in 0..id.len() {
            let damaged = id.as_bytes()[at] ^ 1;
            let damaged = [&id[..at], &char::from(damaged).to_string(), &id[at + 1..]].concat();
            assert_eq!(Seen::parse(&damaged), None, "{damaged} for {id}");
        }
    }
}
