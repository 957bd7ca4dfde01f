//! Entry point for a fuzzer: bytes as a crash or a failing disk may leave them. Any panic, hang or large allocation is a
//! finding.

use crate::packs::{
    hash, index,
    record::{self, HEADER},
};

/// Reads `data` as a pack of small blobs and as the index beside one; then again with the sums that a fuzzer cannot guess.
pub fn packs(data: &[u8]) {
    scan(data);
    scan(&assembled(data));
    let length = data.get(8..16).and_then(|length| length.try_into().ok()).map_or(0, u64::from_le_bytes);
    let _ = index::decode(data, length);
    let summed = [data, blake3::hash(data).as_bytes()].concat();
    for found in index::decode(&summed, length).unwrap_or_default() {
        assert!(u64::from(found.offset) + u64::from(found.length) + HEADER as u64 <= length, "beyond the pack's end");
    }
}

/// A pack of whole records, torn records and whatever else, as the pieces of `data` say.
fn assembled(data: &[u8]) -> Vec<u8> {
    let mut pack = Vec::new();
    for piece in data.split(|byte| *byte == b'|') {
        let record = record::encode(hash(piece), piece);
        match piece.first() {
            Some(b'?') => pack.extend(&record[..record.len() - piece.len() / 2]),
            Some(b'!') => pack.extend(piece),
            Some(b'#') => pack.extend(record::encode(hash(data), piece)),
            _ => pack.extend(record),
        }
    }
    pack
}

fn scan(pack: &[u8]) {
    let scan = record::scan(pack);
    let mut end = 0;
    for found in &scan.found {
        let start = found.offset as usize + HEADER;
        assert!(found.offset as usize >= end, "records overlap");
        end = start + found.length as usize;
        assert_eq!(found.good, hash(&pack[start..end]) == found.id, "a record's bytes are taken for others");
        assert!(!scan.clean || found.good, "a clean pack has a damaged record");
    }
    assert_eq!(scan.end as usize, end, "the end is not that of the last good record");
    // What is appended behind a clean end is found, whatever lay there.
    if scan.clean {
        let mut grown = pack[..end].to_vec();
        grown.extend(record::encode(hash(b"more"), b"more"));
        let again = record::scan(&grown);
        assert!(again.clean && again.end as usize == grown.len(), "what was appended is lost");
        assert_eq!(again.found.len(), scan.found.len() + 1);
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use super::replay::replay;

    #[test]
    fn corpora_hold() {
        replay("packs", super::packs);
    }

    #[test]
    fn seeds_hold() {
        super::packs(b"one|two|?torn in the middle|three|!raw|four|#wrong|last");
        super::packs(b"one|?torn at the end");
    }
}
