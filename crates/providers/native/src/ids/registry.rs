//! The machine's notes of which service has which user ids: a file for each range, named by its first id.
//!
//! Whoever looks and writes holds a lock on the directory meanwhile, so two services that start at once get two ranges. A note
//! counts while its data directory is there and still says that it is the place it was; nobody has to take notes back.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::accounts::IdHolder;
use super::place::Place;
use crate::config::{DEFAULT_UID_BASE, UIDS_PER_SLOT, fits};
use crate::record::{read_json, write_json};

/// No range begins below this: accounts live there, and what container engines map.
const LOWEST: u32 = 0x0100_0000;

/// One service's ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The first id, which is the egress proxy's.
    first: u32,
    /// How many.
    count: u32,
    /// The service's data directory.
    pub(super) data: PathBuf,
    /// The name of its machine.
    node: String,
}

impl Note {
    pub(super) fn new(range: &Range<u32>, data: &Path, node: &str) -> Self {
        Self { first: range.start, count: range.len() as u32, data: data.to_path_buf(), node: node.to_owned() }
    }

    fn range(&self) -> Range<u32> {
        self.first..self.first.saturating_add(self.count)
    }

    /// Whether its service is still where it was.
    fn counts(&self) -> bool {
        Place::read(&self.data)
            .is_ok_and(|place| place.is_some_and(|place| place.data == self.data && place.node == self.node))
    }
}

/// The notes, locked until this is dropped.
#[derive(Debug)]
pub(super) struct Registry {
    directory: PathBuf,
    /// Those that count, of other services.
    others: Vec<Note>,
    /// Those of the service that asks.
    own: Vec<Note>,
    _lock: File,
}

impl Registry {
    /// Locks the notes, and removes those that do not count any more. `data` is whose service asks.
    pub(super) fn open(directory: &Path, data: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
        let lock = File::open(directory)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        let (mut others, mut own) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(directory)? {
            let name = entry?.file_name();
            if name.to_str().is_none_or(|name| name.parse::<u32>().is_err()) {
                continue;
            }
            let path = directory.join(&name);
            match read_json::<Note>(&path)? {
                Some(note) if note.data == data => own.push(note),
                Some(note) if note.counts() => others.push(note),
                _ => fs::remove_file(&path)?,
            }
        }
        Ok(Self { directory: directory.to_path_buf(), others, own, _lock: lock })
    }

    /// Who else has ids of the range.
    pub(super) fn holder(&self, range: &Range<u32>) -> Option<&Note> {
        self.others.iter().find(|note| overlap(&note.range(), range))
    }

    /// The first id of slot 0 in a range for so many slots that nobody has, with the id before it. `taken` are ranges of accounts.
    pub(super) fn find(&self, slots: u32, taken: &[Range<u32>]) -> Option<u32> {
        let taken: Vec<Range<u32>> = self.others.iter().map(Note::range).chain(taken.iter().cloned()).collect();
        let hit = |base: u32| taken.iter().find(|range| overlap(range, &range_of(base, slots)));
        // Downwards first: not all programs know what to do with ids above 2^31.
        let mut base = DEFAULT_UID_BASE;
        while base >= LOWEST && fits(base, slots) {
            let Some(range) = hit(base) else { return Some(base) };
            base = (range.start / UIDS_PER_SLOT).saturating_sub(slots) * UIDS_PER_SLOT;
        }
        let mut base = LOWEST;
        while fits(base, slots) {
            let Some(range) = hit(base) else { return Some(base) };
            // A whole block further, for the id before it.
            base = range.end.div_ceil(UIDS_PER_SLOT).saturating_add(1).saturating_mul(UIDS_PER_SLOT);
        }
        None
    }

    /// Notes a range in place of what the asking service had noted. Until then that counts, whatever becomes of the asking.
    pub(super) fn note(&self, note: &Note) -> io::Result<()> {
        // A disk that is full keeps no service from starting with the ids that it has.
        if self.own != [note.clone()] {
            write_json(&self.directory, &note.first.to_string(), note)?;
        }
        self.own
            .iter()
            .filter(|old| old.first != note.first)
            .try_for_each(|old| fs::remove_file(self.directory.join(old.first.to_string())))
    }
}

/// The services of a machine whose notes count, each by its data directory. Changes nothing, and leaves out what it cannot read.
pub fn services(directory: &Path) -> Vec<IdHolder> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let notes = entries.filter_map(|entry| read_json::<Note>(&entry.path()).ok().flatten());
    notes
        .filter(Note::counts)
        .map(|note| IdHolder { ids: note.range(), who: note.data.display().to_string() })
        .collect()
}

/// The ids of a service whose slot 0 begins at `base`, which is above 0, with the egress proxy's, which is the one before.
pub fn range_of(base: u32, slots: u32) -> Range<u32> {
    base - 1..base + slots * UIDS_PER_SLOT
}

fn overlap(one: &Range<u32>, other: &Range<u32>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_range_is_found_beside_whatever_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::open(&folder.path().join("uids"), folder.path()).unwrap();
        let block = UIDS_PER_SLOT;
        assert_eq!(registry.find(4096, &[]), Some(DEFAULT_UID_BASE));
        // The proxy's id, one account among them, and a large range.
        for taken in [DEFAULT_UID_BASE - 1..DEFAULT_UID_BASE, DEFAULT_UID_BASE + 7..DEFAULT_UID_BASE + 8] {
            let found = registry.find(4, std::slice::from_ref(&taken)).unwrap();
            assert!(found < DEFAULT_UID_BASE && !overlap(&range_of(found, 4), &taken), "{taken:?} {found}");
        }
        let low = block..DEFAULT_UID_BASE + block;
        assert_eq!(registry.find(4, std::slice::from_ref(&low)), Some(DEFAULT_UID_BASE + 2 * block));
        // The largest services begin where they fit.
        let largest = registry.find(60_000, &[]).unwrap();
        assert!(fits(largest, 60_000) && largest >= LOWEST);
        assert_eq!(registry.find(4, std::slice::from_ref(&(0..u32::MAX))), None);
    }
}
