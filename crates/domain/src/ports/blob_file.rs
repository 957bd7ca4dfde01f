//! An open blob.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// The bytes of an open blob, or a part of them.
///
/// It stays readable whatever becomes of the blob. Clones and [ranges](Self::range) share the bytes and nothing else: each
/// has a position of its own, which [`Read`] and [`Seek`] move and [`read_at`](Self::read_at) does not.
#[derive(Debug, Clone)]
pub struct BlobFile {
    source: Source,
    /// Where the first byte lies in the source.
    start: u64,
    bytes: u64,
    position: u64,
}

#[derive(Debug, Clone)]
enum Source {
    Memory(Arc<Vec<u8>>),
    File(Arc<File>),
}

impl BlobFile {
    /// Bytes that are at hand.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self { start: 0, bytes: bytes.len() as u64, position: 0, source: Source::Memory(Arc::new(bytes)) }
    }

    /// The `bytes` bytes of a file that begin at `start`.
    pub fn from_file(file: File, start: u64, bytes: u64) -> Self {
        Self { source: Source::File(Arc::new(file)), start, bytes, position: 0 }
    }

    /// How many bytes there are.
    pub const fn length(&self) -> u64 {
        self.bytes
    }

    /// A part of these bytes, positioned at its start; what lies beyond the end is left out.
    pub fn range(&self, range: Range<u64>) -> Self {
        let end = range.end.min(self.bytes);
        let begin = range.start.min(end);
        Self { source: self.source.clone(), start: self.start + begin, bytes: end - begin, position: 0 }
    }

    /// Reads from an offset on, as much as one call gives; nothing at the end. Blocks when the bytes are
    /// [in a file](Self::in_file).
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.bytes.saturating_sub(offset);
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let buffer = &mut buffer[..wanted];
        match &self.source {
            Source::Memory(_) => {
                let bytes = self.in_memory().unwrap_or_default();
                buffer.copy_from_slice(&bytes[offset.min(self.bytes) as usize..][..wanted]);
                Ok(wanted)
            }
            Source::File(file) => file.read_at(buffer, self.start + offset.min(self.bytes)),
        }
    }

    /// The bytes, where they are in memory; small blobs are.
    pub fn in_memory(&self) -> Option<&[u8]> {
        match &self.source {
            Source::Memory(bytes) => Some(&bytes[self.start as usize..(self.start + self.bytes) as usize]),
            Source::File(_) => None,
        }
    }

    /// The file and where the first byte lies in it, for copying within the kernel. Its cursor is shared: give offsets.
    pub fn in_file(&self) -> Option<(&File, u64)> {
        match &self.source {
            Source::Memory(_) => None,
            Source::File(file) => Some((file, self.start)),
        }
    }
}

impl Read for BlobFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for BlobFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(distance) => self.bytes.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        self.position = position
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a position before the start of a blob"))?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_files_and_of_memory_read_alike() {
        let directory = std::env::temp_dir().join(format!("stead-blob-file-{}", std::process::id()));
        std::fs::write(&directory, b"..0123456789..").unwrap();
        let in_file = BlobFile::from_file(File::open(&directory).unwrap(), 2, 10);
        std::fs::remove_file(&directory).unwrap();
        let in_memory = BlobFile::from_bytes(b"..0123456789..".to_vec()).range(2..12);
        assert_eq!(in_memory.in_memory(), Some(&b"0123456789"[..]));
        assert_eq!(in_file.range(3..99).in_file().map(|(_, start)| start), Some(5));
        for mut blob in [in_file, in_memory] {
            let mut text = String::new();
            blob.read_to_string(&mut text).unwrap();
            assert_eq!((text.as_str(), blob.length()), ("0123456789", 10));
            assert_eq!(blob.seek(SeekFrom::End(-3)).unwrap(), 7);
            assert!(blob.seek(SeekFrom::Current(-8)).is_err());
            let mut part = blob.range(4..8).range(1..99);
            assert_eq!(part.length(), 3);
            let mut text = String::new();
            part.read_to_string(&mut text).unwrap();
            assert_eq!(text, "567");
            assert_eq!(part.read_at(&mut [0; 4], 7).unwrap(), 0);
            assert_eq!(blob.range(20..30).length(), 0);
            assert_eq!(blob.read(&mut [0; 9]).unwrap(), 3, "the others' positions are not this one's");
        }
    }
}
