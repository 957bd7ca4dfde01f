//! Records, of which a pack file consists, and the scan that finds them again.
//!
//! ```text
//! magic 8 | address 32 | length u32 | check u32 | bytes            integers are little-endian
//! ```
//!
//! `check` covers what stands before it, the address covers the bytes. A record is thus known by itself, and what follows
//! a torn or damaged one is found by looking for the next good one.

use stead_domain::BlobId;

const MAGIC: [u8; 8] = *b"STDBLOB1";

/// The length of what stands before a record's bytes.
pub(crate) const HEADER: usize = 48;

/// The address of bytes.
pub(crate) fn hash(bytes: &[u8]) -> BlobId {
    BlobId::from_bytes(*blake3::hash(bytes).as_bytes())
}

fn check(header: &[u8]) -> [u8; 4] {
    let hash = blake3::hash(&header[..HEADER - 4]);
    let [a, b, c, d, ..] = *hash.as_bytes();
    [a, b, c, d]
}

/// What stands before `length` bytes.
pub(crate) fn header(id: BlobId, length: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..40].copy_from_slice(id.as_bytes());
    header[40..44].copy_from_slice(&length.to_le_bytes());
    let check = check(&header);
    header[44..].copy_from_slice(&check);
    header
}

/// A whole record.
pub(crate) fn encode(id: BlobId, bytes: &[u8]) -> Vec<u8> {
    [&header(id, bytes.len() as u32), bytes].concat()
}

/// The address and the length that a header states.
fn decode(bytes: &[u8]) -> Option<(BlobId, u32)> {
    let header: &[u8; HEADER] = bytes.first_chunk()?;
    if header[..8] != MAGIC || check(header) != header[HEADER - 4..] {
        return None;
    }
    let id = header[8..40].try_into().ok()?;
    Some((BlobId::from_bytes(id), u32::from_le_bytes(header[40..44].try_into().ok()?)))
}

/// Where a record lies in its pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) id: BlobId,
    /// Where its header begins.
    pub(crate) offset: u32,
    /// How many bytes follow the header.
    pub(crate) length: u32,
    /// Whether the bytes are what the address says.
    pub(crate) good: bool,
}

/// What a pack holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    /// In the order in which they lie there; the last one is good.
    pub(crate) found: Vec<Found>,
    /// The end of the last good record. What follows was torn by a crash.
    pub(crate) end: u32,
    /// Whether good records fill everything up to `end`. Only then may records be appended there: a later scan reaches
    /// them without a search, whatever lay behind.
    pub(crate) clean: bool,
}

/// Finds the records of a pack of less than 4 GiB.
pub(crate) fn scan(pack: &[u8]) -> Scan {
    let mut scan = Scan { found: Vec::new(), end: 0, clean: true };
    let mut at = 0;
    // Whether a record has to begin here, because one before it ends here.
    let mut expected = true;
    while pack.len() - at >= HEADER {
        let rest = &pack[at..];
        let whole = decode(rest).and_then(|(id, length)| {
            let bytes = rest[HEADER..].get(..length as usize)?;
            Some(Found { id, offset: at as u32, length, good: hash(bytes) == id })
        });
        match whole {
            Some(found) if found.good || expected => {
                at += HEADER + found.length as usize;
                expected = true;
                if found.good {
                    scan.clean &= scan.end == found.offset;
                    scan.end = at as u32;
                }
                scan.found.push(found);
            }
            _ => {
                expected = false;
                let next = rest[1..].windows(MAGIC.len()).position(|window| window == MAGIC);
                at = next.map_or(pack.len(), |next| at + 1 + next);
            }
        }
    }
    scan.found.retain(|found| found.offset < scan.end);
    scan
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small pack, and where its records end.
    fn pack() -> (Vec<u8>, Vec<usize>) {
        let inner = encode(hash(b"inner"), b"inner");
        let (mut pack, mut ends) = (Vec::new(), Vec::new());
        for bytes in [&b"one"[..], b"", &inner, b"the last"] {
            pack.extend(encode(hash(bytes), bytes));
            ends.push(pack.len());
        }
        (pack, ends)
    }

    #[test]
    fn a_tail_torn_anywhere_costs_what_was_torn_alone() {
        let (pack, ends) = pack();
        for cut in 0..=pack.len() {
            let scan = scan(&pack[..cut]);
            let whole = ends.iter().filter(|end| **end <= cut).count();
            // A record inside a torn one is as good as any; nothing is appended behind it.
            assert!(scan.found.iter().all(|found| found.good));
            assert_eq!(scan.found.len(), whole + usize::from(!scan.clean), "cut at {cut}");
            if scan.clean {
                assert_eq!(scan.end as usize, if whole == 0 { 0 } else { ends[whole - 1] });
            }
        }
    }

    #[test]
    fn a_damaged_byte_costs_its_record_alone() {
        let (pack, ends) = pack();
        for place in 0..pack.len() {
            let mut damaged = pack.clone();
            damaged[place] ^= 0x20;
            let scan = scan(&damaged);
            let hit = ends.iter().filter(|end| **end <= place).count();
            for (index, bytes) in [&b"one"[..], b"", &[], b"the last"].into_iter().enumerate() {
                if index != hit && index != 2 {
                    assert!(scan.found.iter().any(|found| found.good && found.id == hash(bytes)), "{place}: {index}");
                }
            }
            assert!(!scan.clean || hit == ends.len() - 1);
        }
    }
}
