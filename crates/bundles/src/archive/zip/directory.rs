//! The central directory, read entry by entry so that its memory is that of the plan.

use std::io::{BufReader, Read, Seek, SeekFrom};

use super::{
    end::{End, le32, le64},
    name,
};
use crate::archive::{
    CHUNK_BYTES,
    error::{ArchiveError, shown},
    limits::Limits,
    plan::{ArchivePlan, Found, Planner, SkipReason},
};

const HEADER_BYTES: usize = 46;
const FLAG_ENCRYPTED: u16 = 1;
const FLAG_DIRECTORY_ENCRYPTED: u16 = 1 << 13;

/// Where a member's bytes are and what they must come to.
#[derive(Debug)]
pub(in crate::archive) struct Entry {
    pub(super) method: u16,
    pub(super) crc32: u32,
    pub(super) size: u64,
    pub(super) compressed_size: u64,
    /// Of its local header, in the file.
    pub(super) header_offset: u64,
}

pub(super) fn read<R: Read + Seek>(
    input: &mut R,
    end: &End,
    limits: &Limits,
) -> Result<(Vec<Entry>, ArchivePlan), ArchiveError> {
    input.seek(SeekFrom::Start(end.directory_offset)).map_err(ArchiveError::Read)?;
    let mut reader = BufReader::with_capacity(CHUNK_BYTES, input.take(end.directory_bytes));
    let mut planner = Planner::new(limits);
    let mut entries = Vec::new();
    let mut buffer = Vec::new();
    let mut left = end.directory_bytes;
    // The size is followed, not the entry count: the count of a large zip without zip64 has wrapped around.
    while left >= HEADER_BYTES as u64 {
        let mut header = [0; HEADER_BYTES];
        reader.read_exact(&mut header).map_err(ArchiveError::from_decoder)?;
        if !header.starts_with(b"PK\x01\x02") {
            break;
        }
        let header = Header(header);
        buffer.resize(header.variable_bytes(), 0);
        reader.read_exact(&mut buffer).map_err(ArchiveError::from_decoder)?;
        left = left.saturating_sub((HEADER_BYTES + buffer.len()) as u64);
        let (raw_name, rest) = buffer.split_at(header.name_bytes());
        let extra = &rest[..header.extra_bytes()];
        let name = name::decode(raw_name, header.u16(8), extra);
        if header.u16(8) & (FLAG_ENCRYPTED | FLAG_DIRECTORY_ENCRYPTED) != 0 {
            return Err(ArchiveError::Encrypted { member: shown(&name) });
        }
        let entry = header.entry(extra, end.base)?;
        planner.add(&name, header.found(&name, entry.size))?;
        entries.push(entry);
    }
    if entries.is_empty() && end.directory_bytes > 0 {
        return Err(ArchiveError::corrupt("the zip's directory is unreadable"));
    }
    Ok((entries, planner.finish()))
}

struct Header([u8; HEADER_BYTES]);

impl Header {
    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    fn u32(&self, at: usize) -> u32 {
        le32(&self.0[at..at + 4])
    }

    fn name_bytes(&self) -> usize {
        usize::from(self.u16(28))
    }

    fn extra_bytes(&self) -> usize {
        usize::from(self.u16(30))
    }

    fn variable_bytes(&self) -> usize {
        self.name_bytes() + self.extra_bytes() + usize::from(self.u16(32))
    }

    /// The entry, with the values that did not fit 32 bits taken from its zip64 field in their fixed order.
    fn entry(&self, extra: &[u8], base: u64) -> Result<Entry, ArchiveError> {
        let mut wide = name::extra_field(extra, 0x0001).unwrap_or_default().chunks_exact(8);
        let mut widen = |narrow: u32| {
            if narrow == u32::MAX { wide.next().map_or(u64::from(narrow), le64) } else { u64::from(narrow) }
        };
        let size = widen(self.u32(24));
        let compressed_size = widen(self.u32(20));
        let header_offset = widen(self.u32(42))
            .checked_add(base)
            .ok_or_else(|| ArchiveError::corrupt("a zip member lies outside of the file"))?;
        Ok(Entry { method: self.u16(10), crc32: self.u32(16), size, compressed_size, header_offset })
    }

    /// What the member is. Attributes lie often: a trailing slash beats all of them but the link bit, and a mode
    /// counts only from systems that have modes.
    fn found(&self, name: &str, size: u64) -> Found {
        const UNIX: u8 = 3;
        const MACOS: u8 = 19;
        const DOS_DIRECTORY: u32 = 0x10;
        let attributes = self.u32(38);
        let mode = if matches!(self.0[5], UNIX | MACOS) { attributes >> 16 } else { 0 };
        let kind = mode & 0o170_000;
        if kind == 0o120_000 {
            return Found::Refused(SkipReason::SymbolicLink);
        }
        let marked = attributes & DOS_DIRECTORY != 0 && size == 0 && kind == 0;
        if name.ends_with('/') || kind == 0o040_000 || marked {
            return Found::Directory;
        }
        match kind {
            0o010_000 | 0o020_000 | 0o060_000 | 0o140_000 => Found::Refused(SkipReason::Special),
            _ => Found::File { executable: mode & 0o111 != 0, size },
        }
    }
}
