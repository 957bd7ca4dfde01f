//! The raw output of a turn as frames of bytes ([`OUTPUT_FRAMES`]), for clients that take much of it: a quarter less to send than
//! [lines](super::OutputLine), and nothing to decode.
//!
//! ```text
//! frame  = kind (1 byte) · length (4 bytes, little-endian) · that many bytes
//! kind 1   what the turn wrote to standard output      any number of these
//! kind 2   what it wrote to standard error             any number of these
//! kind 3   how the turn ended, as the JSON object of the last line     exactly one, the last frame
//! kind 0   a heartbeat, of length 0
//! ```
//!
//! A client whose connection broke asks again with `?from=` the bytes of all frames of kind 1 and 2 that it has, their headers
//! included. A stream without a frame of kind 3 was cut.

use super::output::{OutputLine, Stream};

/// What a client accepts that wants frames.
pub const OUTPUT_FRAMES: &str = "application/vnd.stead.output";

/// The bytes of a frame before its own.
const HEADER: usize = 5;
/// The most that a frame holds; the server's are far shorter.
const LONGEST: usize = 1 << 20;
/// A frame that says nothing.
pub const HEARTBEAT: &[u8] = &[0; HEADER];
/// The kind of the last frame.
const END: u8 = 3;

/// Why a stream cannot be read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No kind that this side knows.
    #[error("a frame of the unknown kind {0}")]
    Kind(u8),
    /// More than a frame holds.
    #[error("a frame of {0} bytes")]
    Length(usize),
    /// The last frame is not what it should be.
    #[error("the end of the output cannot be read")]
    End,
}

/// The last frame.
pub fn end_frame(end: &OutputLine) -> Vec<u8> {
    let text = serde_json::to_vec(end).expect("numbers and strings have a JSON form");
    let length = u32::try_from(text.len()).expect("the reason of an end is short");
    [&[END], &length.to_le_bytes()[..], &text].concat()
}

/// Takes a stream apart, however the network has cut it.
#[derive(Debug)]
pub struct FrameReader {
    offset: u64,
    pending: Vec<u8>,
}

impl FrameReader {
    /// Reads what the server sends from this offset on.
    pub const fn new(from: u64) -> Self {
        Self { offset: from, pending: Vec::new() }
    }

    /// Where the output goes on after the frames that were read.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Gives `take` what has become whole, in order; heartbeats are left out. True when that was the end.
    pub fn push<E: From<FrameError>>(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(OutputLine) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.pending.extend_from_slice(bytes);
        let (mut done, mut is_end) = (0, false);
        while let Some((kind, data)) = frame(&self.pending[done..])? {
            done += HEADER + data.len();
            let line = match kind {
                0 => continue,
                END => serde_json::from_slice(data).map_err(|_| FrameError::End)?,
                kind => {
                    self.offset += (HEADER + data.len()) as u64;
                    let stream = if kind == 1 { Stream::Stdout } else { Stream::Stderr };
                    OutputLine::Chunk { offset: self.offset, stream, data: data.to_vec() }
                }
            };
            is_end = matches!(line, OutputLine::End { .. });
            take(line)?;
        }
        self.pending.drain(..done);
        Ok(is_end)
    }
}

/// The frame that `rest` begins with; None when it is not whole.
fn frame(rest: &[u8]) -> Result<Option<(u8, &[u8])>, FrameError> {
    let Some((&kind, rest)) = rest.split_first() else { return Ok(None) };
    if kind > END {
        return Err(FrameError::Kind(kind));
    }
    let Some((length, rest)) = rest.split_first_chunk() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > LONGEST {
        return Err(FrameError::Length(length));
    }
    Ok(rest.get(..length).map(|data| (kind, data)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Exit;

    fn read(bytes: &[u8], cut: usize) -> Result<(Vec<OutputLine>, u64, bool), FrameError> {
        let (mut reader, mut lines, mut is_end) = (FrameReader::new(100), Vec::new(), false);
        for piece in bytes.chunks(cut) {
            is_end |= reader.push(piece, |line| {
                lines.push(line);
                Ok::<(), FrameError>(())
            })?;
        }
        Ok((lines, reader.offset(), is_end))
    }

    #[test]
    fn frames_are_read_however_they_are_cut() {
        let end = OutputLine::End { state: "completed".into(), exit: Some(Exit::Code(0)), failure: None };
        let stream = [b"\x01\x02\0\0\0hi", HEARTBEAT, b"\x02\x01\0\0\0!", &end_frame(&end)].concat();
        let expected = vec![
            OutputLine::Chunk { offset: 107, stream: Stream::Stdout, data: b"hi".to_vec() },
            OutputLine::Chunk { offset: 113, stream: Stream::Stderr, data: b"!".to_vec() },
            end,
        ];
        for cut in 1..=stream.len() {
            assert_eq!(read(&stream, cut), Ok((expected.clone(), 113, true)), "{cut}");
        }
        assert_eq!(read(&stream[..stream.len() - 1], 3), Ok((expected[..2].to_vec(), 113, false)));
    }

    #[test]
    fn what_is_no_frame_is_refused_before_its_bytes_are_waited_for() {
        assert_eq!(read(b"{", 1), Err(FrameError::Kind(b'{')));
        assert_eq!(read(b"\x01\xff\xff\xff\xff", 1), Err(FrameError::Length(u32::MAX as usize)));
        assert_eq!(read(b"\x03\x02\0\0\0{}", 9), Err(FrameError::End));
    }
}
