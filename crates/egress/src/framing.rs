//! Where a message body ends. A pure state machine; bytes pass through unchanged.
//!
//! Chunked framing is read strictly (CRLF only, bounded extensions), because a reader further on that is more lenient
//! must not find another message inside this one.

/// The end of a body, with what has been seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// This many more bytes.
    Length(u64),
    /// The chunked coding.
    Chunked(Chunked),
    /// Until the sender closes.
    UntilClose,
}

/// How many bytes belong to the body, and whether it ends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) taken: usize,
    pub(crate) done: bool,
}

/// The chunked coding is broken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadFraming;

impl Framing {
    /// No body.
    pub(crate) const NONE: Self = Self::Length(0);

    /// The chunked coding of a request: no trailers, no padding.
    pub(crate) fn chunked_request() -> Self {
        Self::Chunked(Chunked { state: State::Size { digits: 0, size: 0 }, lenient: false })
    }

    /// The chunked coding of a response: trailers and padding after a size are let through.
    pub(crate) fn chunked_response() -> Self {
        Self::Chunked(Chunked { state: State::Size { digits: 0, size: 0 }, lenient: true })
    }

    /// Reads on; never takes a byte beyond the end of the body.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<Progress, BadFraming> {
        match self {
            Self::Length(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= taken as u64;
                Ok(Progress { taken, done: *left == 0 })
            }
            Self::UntilClose => Ok(Progress { taken: bytes.len(), done: false }),
            Self::Chunked(chunked) => chunked.advance(bytes),
        }
    }
}

/// The longest chunk extension, and the longest trailer section, in bytes.
const MAX_EXTENSION: u16 = 256;
const MAX_TRAILERS: u16 = 8192;

/// The chunked coding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunked {
    state: State,
    lenient: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size { digits: u8, size: u64 },
    Extension { size: u64, length: u16 },
    SizeEnd { size: u64 },
    Data { left: u64 },
    DataReturn,
    DataEnd,
    TrailerStart { length: u16 },
    Trailer { length: u16 },
    TrailerEnd { length: u16 },
    LastEnd,
    Done,
}

impl Chunked {
    fn advance(&mut self, bytes: &[u8]) -> Result<Progress, BadFraming> {
        let mut taken = 0;
        while taken < bytes.len() && self.state != State::Done {
            if let State::Data { left } = self.state {
                let step = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - taken);
                taken += step;
                let left = left - step as u64;
                self.state = if left == 0 { State::DataReturn } else { State::Data { left } };
            } else {
                self.state = self.step(bytes[taken])?;
                taken += 1;
            }
        }
        Ok(Progress { taken, done: self.state == State::Done })
    }

    fn step(&self, byte: u8) -> Result<State, BadFraming> {
        let text = byte == b'\t' || byte == b' ' || byte.is_ascii_graphic() || byte >= 0x80;
        Ok(match (self.state, byte) {
            (State::Size { digits, size }, _) if byte.is_ascii_hexdigit() && digits < 16 => {
                let digit = u64::from((byte as char).to_digit(16).ok_or(BadFraming)?);
                State::Size { digits: digits + 1, size: size << 4 | digit }
            }
            (State::Size { digits: 1.., size }, b'\r') => State::SizeEnd { size },
            (State::Size { digits: 1.., size }, b';') => State::Extension { size, length: 0 },
            (State::Size { digits: 1.., size }, b' ' | b'\t') if self.lenient => State::Extension { size, length: 0 },
            (State::Extension { size, .. }, b'\r') => State::SizeEnd { size },
            (State::Extension { size, length }, _) if text && length < MAX_EXTENSION => {
                State::Extension { size, length: length + 1 }
            }
            (State::SizeEnd { size: 0 }, b'\n') => State::TrailerStart { length: 0 },
            (State::SizeEnd { size }, b'\n') => State::Data { left: size },
            (State::DataReturn, b'\r') => State::DataEnd,
            (State::DataEnd, b'\n') => State::Size { digits: 0, size: 0 },
            (State::TrailerStart { .. }, b'\r') => State::LastEnd,
            (State::TrailerStart { length } | State::Trailer { length }, _)
                if self.lenient && text && length < MAX_TRAILERS =>
            {
                State::Trailer { length: length + 1 }
            }
            (State::Trailer { length }, b'\r') => State::TrailerEnd { length },
            (State::TrailerEnd { length }, b'\n') => State::TrailerStart { length },
            (State::LastEnd, b'\n') => State::Done,
            _ => return Err(BadFraming),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the bytes in pieces of every size; the outcome must not depend on where they were cut.
    fn read(start: &Framing, bytes: &[u8]) -> Result<Progress, BadFraming> {
        let whole = start.clone().advance(bytes);
        for size in 1..bytes.len() {
            let mut framing = start.clone();
            let mut total = Ok(Progress { taken: 0, done: false });
            for piece in bytes.chunks(size) {
                total = match (total, framing.advance(piece)) {
                    (Ok(before), Ok(now)) => Ok(Progress { taken: before.taken + now.taken, done: now.done }),
                    (_, Err(error)) | (Err(error), _) => Err(error),
                };
                if !matches!(total, Ok(Progress { done: false, .. })) {
                    break;
                }
            }
            assert_eq!(total, whole, "in pieces of {size}");
        }
        whole
    }

    #[test]
    fn finds_the_end_and_nothing_more() {
        let (request, response) = (Framing::chunked_request(), Framing::chunked_response());
        let body = b"5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
        let mut with_next = body.to_vec();
        with_next.extend_from_slice(b"GET / HTTP/1.1\r\n");
        assert_eq!(read(&request, &with_next), Ok(Progress { taken: body.len(), done: true }));
        assert_eq!(read(&response, b"0\r\nx: y\r\n\r\nrest"), Ok(Progress { taken: 11, done: true }));
        assert_eq!(read(&response, b"1  \r\nx\r\n0\r\n\r\n").map(|progress| progress.done), Ok(true));
        assert_eq!(read(&Framing::Length(3), b"abcdef"), Ok(Progress { taken: 3, done: true }));
        assert_eq!(read(&Framing::UntilClose, b"abc"), Ok(Progress { taken: 3, done: false }));
    }

    #[test]
    fn refuses_what_another_reader_may_read_differently() {
        let request = Framing::chunked_request();
        let long = [b"1;".as_slice(), &[b'x'; 300], b"\r\n"].concat();
        for bytes in [
            b"\r\n".as_slice(),
            b"5\nhello\r\n",
            b"5\r\nhelloX",
            b"5\r\nhello\n",
            b"0x5\r\n",
            b"-1\r\n",
            b" 5\r\n",
            b"5 \r\n",
            b"g\r\n",
            b"11111111111111111\r\n",
            b"0\r\nx: y\r\n\r\n",
            b"0\r\n\n",
            b"0\n\n",
            b"1;a\nb\r\n",
            b"1;\x00\r\n",
            &long,
        ] {
            assert_eq!(read(&request, bytes), Err(BadFraming), "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics_and_never_takes_too_much(bytes: Vec<u8>, lenient: bool, left: u64) {
            let chunked = if lenient { Framing::chunked_response() } else { Framing::chunked_request() };
            for mut framing in [chunked, Framing::Length(left)] {
                if let Ok(progress) = framing.advance(&bytes) {
                    proptest::prop_assert!(progress.taken <= bytes.len());
                }
            }
        }
    }
}
