//! Append-only files for the output of commands and builds.
//!
//! An offset names the same byte for ever. When a [`Trim`] applies, bytes between the kept ends are given back to the
//! disk by punching holes, so a file's length and its offsets stay while its blocks go. What a reader returns follows
//! from length and trim alone, never from which holes were made: a file system that cannot punch holes only costs space.
//!
//! All calls block.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::buffer::spare_capacity;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::trim::Trim;

/// How much has to be left out anew before a hole is punched; also the alignment of holes, which must be whole blocks.
const PUNCH_BYTES: u64 = 1024 * 1024;

/// The one writer of a segment file.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    file: File,
    length: u64,
    trim: Trim,
    punched: u64,
}

impl SegmentWriter {
    /// Opens the file to append to it, making it if it is not there.
    pub(crate) fn open(path: &Path, trim: Trim) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let length = file.metadata()?.len();
        Ok(Self {
            file,
            length,
            trim,
            punched: trim.head_bytes.checked_next_multiple_of(PUNCH_BYTES).unwrap_or(u64::MAX),
        })
    }

    /// Appends and returns the offset of the first byte. After an error the file may have grown by a part of `bytes`;
    /// the next append goes behind that part.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let offset = self.length;
        if let Err(error) = self.file.write_all(bytes) {
            self.length = self.file.metadata()?.len();
            return Err(error);
        }
        self.length += bytes.len() as u64;
        self.punch();
        Ok(offset)
    }

    /// Makes everything appended so far durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn punch(&mut self) {
        let end = self.trim.kept(self.length).tail.start / PUNCH_BYTES * PUNCH_BYTES;
        if end <= self.punched {
            return;
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(error) = fallocate(&self.file, flags, self.punched, end - self.punched) {
            tracing::debug!(error.message = %error, "a trimmed segment keeps its blocks");
        }
        self.punched = end;
    }
}

/// Shortens the file to `length` bytes; a shorter one stays.
pub(crate) fn cut(path: &Path, length: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    if file.metadata()?.len() > length {
        file.set_len(length)?;
    }
    Ok(())
}

/// What one read of a segment gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentChunk {
    /// The offset of the first byte.
    pub(crate) offset: u64,
    /// The bytes; empty at the end of the file.
    pub(crate) bytes: Vec<u8>,
    /// How many bytes between the offset that was asked for and `offset` are left out.
    pub(crate) omitted: u64,
}

/// A reader, which may run beside the writer.
#[derive(Debug)]
pub(crate) struct SegmentReader {
    file: File,
    trim: Trim,
}

impl SegmentReader {
    /// Opens the file; `trim` is the writer's.
    pub(crate) fn open(path: &Path, trim: Trim) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, trim })
    }

    /// The file's length now: where the next append will go.
    pub(crate) fn end(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Reads at most `max` bytes from `from` on. A chunk never spans what is left out; go on at its end.
    pub(crate) fn read(&self, from: u64, max: usize) -> io::Result<SegmentChunk> {
        let mut total = self.end()?;
        loop {
            let kept = self.trim.kept(total);
            let (offset, omitted) = kept.resume(from);
            let wanted = kept.stretch_end(offset).saturating_sub(offset).min(max as u64);
            let mut bytes = Vec::with_capacity(wanted as usize);
            while bytes.len() < wanted as usize {
                let at = offset + bytes.len() as u64;
                match rustix::io::pread(&self.file, spare_capacity(&mut bytes), at) {
                    Ok(0) => break,
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            // The room may be more than was asked for.
            bytes.truncate(wanted as usize);
            // The writer may have trimmed what was just read; zeros must not pass for output.
            let after = self.end()?;
            if self.trim.kept(after).resume(offset).1 == 0 {
                return Ok(SegmentChunk { offset, bytes, omitted });
            }
            total = after;
        }
    }

    /// The whole output as it is kept, with a line that states what is left out.
    pub(crate) fn read_kept(&self) -> io::Result<Vec<u8>> {
        let kept = self.trim.kept(self.end()?);
        let mut output = Vec::new();
        let mut offset = 0;
        while offset < kept.tail.end {
            let chunk = self.read(offset, PUNCH_BYTES as usize)?;
            if chunk.bytes.is_empty() {
                break;
            }
            if chunk.omitted > 0 {
                output.extend_from_slice(format!("\n[... {} bytes left out ...]\n", chunk.omitted).as_bytes());
            }
            offset = chunk.offset + chunk.bytes.len() as u64;
            output.extend_from_slice(&chunk.bytes);
        }
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn offsets_survive_reopening_and_trimming() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("output");
        let trim = Trim { head_bytes: 10_000, tail_bytes: 2 * PUNCH_BYTES };
        let line = b"0123456789abcde\n";
        let mut writer = SegmentWriter::open(&path, trim).unwrap();
        let block = line.repeat(4096);
        for index in 0..160 {
            assert_eq!(writer.append(&block).unwrap(), index * block.len() as u64);
        }
        drop(writer);
        let mut writer = SegmentWriter::open(&path, trim).unwrap();
        let end = writer.append(b"LAST").unwrap();
        writer.sync().unwrap();
        assert_eq!(end, 160 * block.len() as u64);

        let reader = SegmentReader::open(&path, trim).unwrap();
        assert_eq!(reader.read(end, 100).unwrap(), SegmentChunk { offset: end, bytes: b"LAST".into(), omitted: 0 });
        assert_eq!(reader.read(end + 4, 100).unwrap().bytes, b"");
        let head = reader.read(16, usize::MAX).unwrap();
        assert_eq!((head.offset, head.bytes.len()), (16, 10_000 - 16));
        let tail = reader.read(10_000, 32).unwrap();
        assert_eq!(tail.offset, end + 4 - trim.tail_bytes);
        assert_eq!(tail.omitted, tail.offset - 10_000);
        let phase = (tail.offset % 16) as usize;
        assert_eq!(tail.bytes[..16], line.repeat(2)[phase..phase + 16]);
        let all = reader.read_kept().unwrap();
        assert!(all.starts_with(line) && all.ends_with(b"LAST"));
        assert!(String::from_utf8(all).unwrap().contains(&format!("{} bytes left out", tail.omitted)));
        // Ten megabytes were written; three to four stay where holes are possible.
        let blocks = std::fs::metadata(&path).unwrap().blocks() * 512;
        assert!(blocks < 6 * PUNCH_BYTES, "{blocks}");
    }

    #[test]
    fn without_a_trim_everything_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("output");
        let mut writer = SegmentWriter::open(&path, Trim::NONE).unwrap();
        writer.append(b"a").unwrap();
        writer.append(b"").unwrap();
        assert_eq!(writer.append(b"b").unwrap(), 1);
        let reader = SegmentReader::open(&path, Trim::NONE).unwrap();
        assert_eq!(reader.read_kept().unwrap(), b"ab");
    }
}
