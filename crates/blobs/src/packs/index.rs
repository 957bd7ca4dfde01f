//! The index beside a pack that is full, so that a start reads no pack that will not grow any more.
//!
//! ```text
//! magic 8 | the pack's length u64 | per blob: address 32, offset u32, length u32 | BLAKE3 of all that, 32
//! ```
//!
//! It is a hint that is checked whole: one that is torn, or beside a pack of another length, is made anew by a scan. Blobs
//! that were collected are left out, so it is also what keeps them away after a start.

use std::fs;
use std::io;
use std::path::Path;

use stead_domain::BlobId;

use super::record::{Found, HEADER};

const MAGIC: [u8; 8] = *b"STDPIDX1";
const ENTRY: usize = 40;
const HASH: usize = 32;

fn encode(pack_length: u64, entries: &[Found]) -> Vec<u8> {
    let mut index = Vec::with_capacity(16 + entries.len() * ENTRY + HASH);
    index.extend_from_slice(&MAGIC);
    index.extend_from_slice(&pack_length.to_le_bytes());
    for entry in entries {
        index.extend_from_slice(entry.id.as_bytes());
        index.extend_from_slice(&entry.offset.to_le_bytes());
        index.extend_from_slice(&entry.length.to_le_bytes());
    }
    let hash = blake3::hash(&index);
    index.extend_from_slice(hash.as_bytes());
    index
}

/// The entries, when the index is whole and belongs to a pack of this length. Their bytes were not looked at.
pub(crate) fn decode(index: &[u8], pack_length: u64) -> Option<Vec<Found>> {
    let (body, sum) = index.split_last_chunk::<HASH>()?;
    let entries = body.strip_prefix(&MAGIC)?.strip_prefix(&pack_length.to_le_bytes())?;
    if blake3::hash(body) != *sum || entries.len() % ENTRY != 0 {
        return None;
    }
    entries
        .chunks_exact(ENTRY)
        .map(|entry| {
            let offset = u32::from_le_bytes(entry[32..36].try_into().ok()?);
            let length = u32::from_le_bytes(entry[36..].try_into().ok()?);
            let end = u64::from(offset) + HEADER as u64 + u64::from(length);
            let id = BlobId::from_bytes(entry[..32].try_into().ok()?);
            (end <= pack_length).then_some(Found { id, offset, length, good: false })
        })
        .collect()
}

/// Reads an index; nothing when it is not there or of no use.
pub(crate) fn read(path: &Path, pack_length: u64) -> io::Result<Option<Vec<Found>>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => fs::read(path).map(|index| decode(&index, pack_length)),
        Ok(_) => Err(io::Error::other("it is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes an index in the place of the one that is there.
pub(crate) fn write(path: &Path, pack_length: u64, entries: &[Found]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, encode(pack_length, entries))?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::super::record::hash;
    use super::*;

    #[test]
    fn an_index_is_taken_whole_or_not_at_all() {
        let entry = |offset, length| Found { id: hash(b"x"), offset, length, good: false };
        let entries = [entry(0, 7), entry(55, 0)];
        let index = encode(103, &entries);
        assert_eq!(decode(&index, 103).unwrap(), entries);
        assert_eq!(decode(&index, 104), None);
        assert_eq!(decode(&encode(103, &[entry(55, 1)]), 103), None, "an entry beyond the pack's end");
        for place in 0..index.len() {
            let mut damaged = index.clone();
            damaged[place] ^= 1;
            assert_eq!(decode(&damaged, 103), None);
            assert_eq!(decode(&index[..place], 103), None);
        }
    }
}
