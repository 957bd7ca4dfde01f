//! The outer frame: length, kind, stream, payload. It is the one thing that never changes between generations.
//!
//! ```text
//! 0        4      5          9
//! | length | kind | stream   | payload (length bytes)
//! | u32 LE | u8   | u32 LE   |
//! ```
//!
//! Everything here is a pure function over bytes: no I/O, no allocation for what a peer merely announces.
//!
//! Flow control: a frame that carries data costs its payload plus [`FRAME_COST`] (so that many tiny frames cost memory too).
//! The sender of a stream starts with [`WINDOW`] and waits when it is used up; the receiver gives credit back as its
//! own reader takes the data. Messages cost nothing, except listing pages, which cost what data of their size would.

/// Bytes before the payload.
pub const HEADER_LEN: usize = 9;
/// The longest payload a peer may announce, in bytes. A longer one ends the connection.
pub const MAX_PAYLOAD: usize = 1 << 20;
/// The longest payload that a sender puts into one data frame, in bytes.
pub const MAX_CHUNK: usize = 32 * 1024;
/// The same for a runtime from generation 2 on.
pub const LARGE_CHUNK: usize = 128 * 1024;
/// What a data frame costs besides its payload, in bytes of credit.
pub const FRAME_COST: usize = 64;
/// The credit that each direction of a new stream starts with, in bytes.
pub const WINDOW: usize = 256 * 1024;
/// What a receiver may raise the credit for the output of a named command to, in bytes. A sender that knows of no more than [`WINDOW`]
/// takes no more.
pub const LARGE_WINDOW: usize = 1024 * 1024;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A JSON message.
    Message,
    /// Raw bytes: standard input, script or file content to the runtime; standard output or file content from it.
    Data,
    /// Raw bytes of standard error.
    DataError,
    /// A kind of a later generation: answered with an error, its payload skipped.
    Unknown(u8),
}

impl Kind {
    fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::Message,
            2 => Self::Data,
            3 => Self::DataError,
            other => Self::Unknown(other),
        }
    }

    fn to_byte(self) -> u8 {
        match self {
            Self::Message => 1,
            Self::Data => 2,
            Self::DataError => 3,
            Self::Unknown(byte) => byte,
        }
    }
}

/// One frame, borrowed from the bytes it was decoded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'bytes> {
    /// What the payload is.
    pub kind: Kind,
    /// The stream that it belongs to; 0 is the connection itself.
    pub stream: u32,
    /// The bytes.
    pub payload: &'bytes [u8],
}

/// Why bytes cannot be (or become) a frame. The connection cannot go on after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The announced or given payload is longer than [`MAX_PAYLOAD`].
    #[error("a frame of {length} bytes is longer than the allowed {MAX_PAYLOAD}")]
    TooLong {
        /// The length in bytes.
        length: usize,
    },
}

/// What a data frame with this many payload bytes costs.
pub const fn cost(payload: usize) -> usize {
    payload + FRAME_COST
}

/// The longest payload that a sender with this much credit, whose frames hold at most `chunk`, may send now; `None` when it must wait.
pub const fn affordable(credit: usize, chunk: usize) -> Option<usize> {
    if credit <= FRAME_COST {
        return None;
    }
    let payload = credit - FRAME_COST;
    Some(if payload < chunk { payload } else { chunk })
}

/// The header of a frame with this payload length.
pub fn header(kind: Kind, stream: u32, length: usize) -> Result<[u8; HEADER_LEN], FrameError> {
    if length > MAX_PAYLOAD {
        return Err(FrameError::TooLong { length });
    }
    let mut bytes = [0; HEADER_LEN];
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    bytes[4] = kind.to_byte();
    bytes[5..].copy_from_slice(&stream.to_le_bytes());
    Ok(bytes)
}

/// Appends one frame to `output`.
pub fn encode(output: &mut Vec<u8>, frame: Frame<'_>) -> Result<(), FrameError> {
    output.extend_from_slice(&header(frame.kind, frame.stream, frame.payload.len())?);
    output.extend_from_slice(frame.payload);
    Ok(())
}

/// The kind, stream and payload length that the header at the start of `input` announces; `None` while that is incomplete.
pub fn announced(input: &[u8]) -> Option<(Kind, u32, usize)> {
    let [l0, l1, l2, l3, kind, s0, s1, s2, s3] = *input.first_chunk::<HEADER_LEN>()?;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    Some((Kind::from_byte(kind), u32::from_le_bytes([s0, s1, s2, s3]), length))
}

/// The first frame of `input` and the bytes it occupies, or `None` while it is incomplete.
pub fn decode(input: &[u8]) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    let Some((kind, stream, length)) = announced(input) else {
        return Ok(None);
    };
    if length > MAX_PAYLOAD {
        return Err(FrameError::TooLong { length });
    }
    let used = HEADER_LEN + length;
    let Some(payload) = input.get(HEADER_LEN..used) else {
        return Ok(None);
    };
    Ok(Some((Frame { kind, stream, payload }, used)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hostile_lengths_are_refused_before_anything_is_read() {
        let mut bytes = vec![0xff; HEADER_LEN];
        assert_eq!(decode(&bytes), Err(FrameError::TooLong { length: u32::MAX as usize }));
        bytes[..4].copy_from_slice(&(MAX_PAYLOAD as u32 + 1).to_le_bytes());
        assert!(decode(&bytes).is_err());
        assert!(header(Kind::Data, 1, MAX_PAYLOAD + 1).is_err());
    }

    #[test]
    fn credit_pays_for_the_frame_as_well() {
        assert_eq!(affordable(FRAME_COST, MAX_CHUNK), None);
        assert_eq!(affordable(FRAME_COST + 1, MAX_CHUNK), Some(1));
        assert_eq!(affordable(usize::MAX, MAX_CHUNK), Some(MAX_CHUNK));
        let credit = 1000;
        assert!(cost(affordable(credit, MAX_CHUNK).unwrap()) <= credit);
    }

    proptest! {
        #[test]
        fn frames_survive_any_split(
            frames in prop::collection::vec((any::<u8>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..200)), 0..8),
            piece in 1usize..50,
        ) {
            let mut wire = Vec::new();
            for (kind, stream, payload) in &frames {
                encode(&mut wire, Frame { kind: Kind::from_byte(*kind), stream: *stream, payload }).unwrap();
            }
            let (mut buffer, mut seen) = (Vec::new(), Vec::new());
            for part in wire.chunks(piece) {
                buffer.extend_from_slice(part);
                while let Some((frame, used)) = decode(&buffer).unwrap() {
                    seen.push((frame.kind.to_byte(), frame.stream, frame.payload.to_vec()));
                    buffer.drain(..used);
                }
            }
            prop_assert!(buffer.is_empty());
            prop_assert_eq!(seen, frames);
        }

        #[test]
        fn arbitrary_bytes_never_panic_and_never_overrun(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(Some((frame, used))) = decode(&bytes) {
                prop_assert!(used <= bytes.len());
                prop_assert_eq!(frame.payload.len() + HEADER_LEN, used);
            }
        }
    }
}
