//! Finding a zip's directory from the end of the file, with or without zip64 and leading bytes.

use std::io::{Read, Seek, SeekFrom};

use crate::archive::error::ArchiveError;

const END_BYTES: usize = 22;
const END64_BYTES: u64 = 56;
const LOCATOR_BYTES: u64 = 20;
const COMMENT_MAX_BYTES: u64 = 65_535;

/// Where the central directory lies in the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) directory_offset: u64,
    pub(super) directory_bytes: u64,
    /// What has to be added to every offset in the directory, because something stands before the zip.
    pub(super) base: u64,
}

/// Looks for the end record. `None` when there is none whose directory lies within the file.
pub(super) fn find<R: Read + Seek>(input: &mut R, length: u64) -> Result<Option<End>, ArchiveError> {
    let window = length.min(COMMENT_MAX_BYTES + END_BYTES as u64);
    let start = length - window;
    let tail = read_at(input, start, window)?;
    // From the back: a record in a comment would stand before the real one's end.
    for position in (0..tail.len().saturating_sub(END_BYTES - 1)).rev() {
        let record = &tail[position..];
        if !record.starts_with(b"PK\x05\x06") {
            continue;
        }
        let comment = usize::from(u16::from_le_bytes([record[20], record[21]]));
        if position + END_BYTES + comment > tail.len() {
            continue;
        }
        if let Some(end) = interpret(input, length, start + position as u64, record)? {
            return Ok(Some(end));
        }
    }
    Ok(None)
}

fn interpret<R: Read + Seek>(
    input: &mut R,
    length: u64,
    position: u64,
    record: &[u8],
) -> Result<Option<End>, ArchiveError> {
    let bytes = u64::from(le32(&record[12..16]));
    let offset = u64::from(le32(&record[16..20]));
    let entries = u16::from_le_bytes([record[10], record[11]]);
    if (entries == u16::MAX || bytes == u64::from(u32::MAX) || offset == u64::from(u32::MAX))
        && let Some(end) = interpret64(input, length, position)?
    {
        return Ok(Some(end));
    }
    locate(input, position, bytes, offset)
}

/// Follows the zip64 locator that stands directly before the end record.
fn interpret64<R: Read + Seek>(input: &mut R, length: u64, position: u64) -> Result<Option<End>, ArchiveError> {
    let Some(locator_at) = position.checked_sub(LOCATOR_BYTES) else { return Ok(None) };
    let locator = read_at(input, locator_at, LOCATOR_BYTES)?;
    if !locator.starts_with(b"PK\x06\x07") || locator.len() < LOCATOR_BYTES as usize {
        return Ok(None);
    }
    let stated = le64(&locator[8..16]);
    // With leading bytes the stated offset misses; the record then ends where the locator begins.
    for at in [Some(stated), locator_at.checked_sub(END64_BYTES)].into_iter().flatten() {
        if at.checked_add(END64_BYTES).is_none_or(|end| end > length) {
            continue;
        }
        let record = read_at(input, at, END64_BYTES)?;
        if record.starts_with(b"PK\x06\x06") {
            return locate(input, at, le64(&record[40..48]), le64(&record[48..56]));
        }
    }
    Ok(None)
}

/// Places a directory of `bytes` that ends at `end` although it should start at `offset`.
fn locate<R: Read + Seek>(input: &mut R, end: u64, bytes: u64, offset: u64) -> Result<Option<End>, ArchiveError> {
    if bytes == 0 {
        return Ok(Some(End { directory_offset: end, directory_bytes: 0, base: 0 }));
    }
    let before_end = end.checked_sub(bytes).and_then(|start| start.checked_sub(offset).map(|base| (start, base)));
    let as_stated = offset.checked_add(bytes).is_some_and(|stated_end| stated_end <= end).then_some((offset, 0));
    for (directory_offset, base) in [before_end, as_stated].into_iter().flatten() {
        if read_at(input, directory_offset, 4)? == *b"PK\x01\x02" {
            return Ok(Some(End { directory_offset, directory_bytes: bytes, base }));
        }
    }
    Ok(None)
}

fn read_at<R: Read + Seek>(input: &mut R, offset: u64, bytes: u64) -> Result<Vec<u8>, ArchiveError> {
    input.seek(SeekFrom::Start(offset)).map_err(ArchiveError::Read)?;
    let mut buffer = Vec::new();
    input.take(bytes).read_to_end(&mut buffer).map_err(ArchiveError::Read)?;
    Ok(buffer)
}

pub(super) fn le32(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

pub(super) fn le64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}
