//! A reader that can look at bytes before it takes them.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// A reader and the bytes that were read but not taken.
#[derive(Debug)]
pub(crate) struct Buffered<R> {
    reader: R,
    bytes: Vec<u8>,
    start: usize,
}

impl<R: AsyncRead + Unpin> Buffered<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, bytes: Vec::new(), start: 0 }
    }

    /// The bytes at hand.
    pub(crate) fn peek(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Takes `count` of the bytes at hand.
    pub(crate) fn take(&mut self, count: usize) {
        self.start = (self.start + count).min(self.bytes.len());
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Reads more, at most `room` bytes; returns how many, 0 at the end of the stream.
    pub(crate) async fn fill(&mut self, room: usize) -> io::Result<usize> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.reserve(room);
        (&mut self.reader).take(room as u64).read_buf(&mut self.bytes).await
    }

    /// The reader itself; what it yields comes after the bytes at hand.
    pub(crate) fn reader_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// The reader, and the bytes at hand.
    pub(crate) fn into_parts(mut self) -> (R, Vec<u8>) {
        self.bytes.drain(..self.start);
        (self.reader, self.bytes)
    }
}
