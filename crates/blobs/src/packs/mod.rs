//! Small blobs of one workspace, together in files that only grow.
//!
//! ```text
//! packs/<8 hex>.pack     records, see `record`
//! packs/<8 hex>.index    what a full pack holds, see `index`
//! ```
//!
//! The pack with the highest number grows until it is full; then it gets its index and the next one begins. At start the
//! packs without an index are scanned, which is one, unless a crash came in between. Nothing is flushed here: whoever
//! appends gets to know which file has to be. Nothing is locked here either.

mod handles;
pub(crate) mod index;
pub(crate) mod record;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stead_domain::BlobId;

use self::record::{Found, HEADER};
pub(crate) use self::{handles::Handles, record::hash};

/// The smallest length at which a pack counts as full, unless told otherwise.
pub(crate) const FULL: u64 = 64 << 20;
/// No pack grows beyond this: one record may follow the last byte before it is full.
const LONGEST: u64 = 1 << 30;

/// Where a blob's record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pack: u32,
    offset: u32,
    pub(crate) length: u32,
    /// Whether this process has seen it whole with its header. An index may have survived a power cut that bytes which it
    /// names did not.
    checked: bool,
}

#[derive(Debug, Default)]
struct Pack {
    length: u64,
    /// How much of it is records that are found by their address.
    live: u64,
    /// Whether the index beside it, if there is one, names blobs that were removed.
    stale: bool,
}

/// A pack file that was written to and not flushed.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<File>,
}

/// The packs of one workspace.
#[derive(Debug)]
pub(crate) struct Packs {
    directory: PathBuf,
    full: u64,
    slots: HashMap<BlobId, Slot>,
    bytes: u64,
    files: BTreeMap<u32, Pack>,
    /// The number of the next pack. None is used twice, since who flushes a pack knows it by its name.
    next: u32,
    /// The pack that grows.
    growing: Option<u32>,
    handles: Arc<Handles>,
}

fn record_bytes(length: u32) -> u64 {
    HEADER as u64 + u64::from(length)
}

/// Reads a record's bytes and compares them with their address; nothing when they differ.
pub(crate) fn read(file: &File, id: BlobId, slot: Slot) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; slot.length as usize];
    match file.read_exact_at(&mut bytes, u64::from(slot.offset) + HEADER as u64) {
        Ok(()) => Ok((hash(&bytes) == id).then_some(bytes)),
        // Cut behind our back.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a record is whole with its header: a scan would find it.
fn is_whole(file: &File, id: BlobId, slot: Slot) -> io::Result<bool> {
    let Some(bytes) = read(file, id, slot)? else { return Ok(false) };
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, u64::from(slot.offset))?;
    Ok(header == record::header(id, bytes.len() as u32))
}

impl Packs {
    /// Finds out what the directory holds; it need not be there. A pack is full from `full` bytes on.
    pub(crate) fn load(directory: PathBuf, full: u64, handles: Arc<Handles>) -> io::Result<Self> {
        let mut packs = Self {
            directory,
            full,
            slots: HashMap::new(),
            bytes: 0,
            files: BTreeMap::new(),
            next: 0,
            growing: None,
            handles,
        };
        let numbers = packs.list()?;
        packs.next = numbers.last().map_or(0, |number| number + 1);
        for number in &numbers {
            packs.load_one(*number, numbers.last() == Some(number))?;
        }
        Ok(packs)
    }

    fn path(&self, number: u32, extension: &str) -> PathBuf {
        self.directory.join(format!("{number:08x}.{extension}"))
    }

    /// The numbers of the packs, in order. What a crash left of others is removed.
    fn list(&self) -> io::Result<Vec<u32>> {
        let mut numbers = Vec::new();
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(numbers),
            entries => entries?,
        };
        let mut others = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let number = path.file_stem().and_then(|stem| u32::from_str_radix(stem.to_str()?, 16).ok());
            match (number, path.extension().and_then(|extension| extension.to_str())) {
                (Some(number), Some("pack")) => numbers.push(number),
                (Some(number), Some("index")) => others.push((number, path)),
                (Some(_), Some("new")) => fs::remove_file(path)?,
                _ => {}
            }
        }
        numbers.sort_unstable();
        for (number, path) in others {
            if numbers.binary_search(&number).is_err() {
                fs::remove_file(path)?;
            }
        }
        Ok(numbers)
    }

    fn load_one(&mut self, number: u32, last: bool) -> io::Result<()> {
        let path = self.path(number, "pack");
        let length = fs::metadata(&path)?.len();
        if let Some(entries) = index::read(&self.path(number, "index"), length)? {
            self.files.insert(number, Pack { length, ..Pack::default() });
            for entry in entries {
                self.insert(number, entry);
            }
            return Ok(());
        }
        let mut bytes = Vec::new();
        File::open(&path)?.take(LONGEST).read_to_end(&mut bytes)?;
        let scan = record::scan(&bytes);
        drop(bytes);
        let torn = length - u64::from(scan.end);
        if torn > 0 || !scan.clean {
            tracing::warn!(pack = %path.display(), bytes = torn, clean = scan.clean, "a pack was torn by a crash");
        }
        let grows = last && scan.clean && u64::from(scan.end) < self.full;
        let length = if grows { u64::from(scan.end) } else { length };
        self.files.insert(number, Pack { length, ..Pack::default() });
        for entry in scan.found {
            // A damaged one is remembered, to be told apart from one that never was, unless there is a good one.
            if entry.good || !self.slots.contains_key(&entry.id) {
                self.insert(number, entry);
            }
        }
        if grows {
            self.handles.open(&path)?.set_len(length)?;
            self.growing = Some(number);
            Ok(())
        } else {
            self.write_indexes(&[number])
        }
    }

    /// Makes a record the one that is found by its address.
    fn insert(&mut self, number: u32, found: Found) {
        self.remove(found.id);
        let slot = Slot { pack: number, offset: found.offset, length: found.length, checked: found.good };
        self.slots.insert(found.id, slot);
        self.bytes += u64::from(slot.length);
        if let Some(pack) = self.files.get_mut(&number) {
            pack.live += record_bytes(slot.length);
        }
    }

    /// Forgets a blob and says how long it was. Its record stays where it is until [`worthless`](Self::worthless) names
    /// the pack.
    pub(crate) fn remove(&mut self, id: BlobId) -> Option<u32> {
        let slot = self.slots.remove(&id)?;
        self.bytes -= u64::from(slot.length);
        if let Some(pack) = self.files.get_mut(&slot.pack) {
            pack.live -= record_bytes(slot.length);
            pack.stale = true;
        }
        Some(slot.length)
    }

    /// How many blobs there are, and how many bytes they have.
    pub(crate) fn usage(&self) -> (u64, u64) {
        (self.slots.len() as u64, self.bytes)
    }

    /// The addresses of all blobs.
    pub(crate) fn ids(&self) -> Vec<BlobId> {
        self.slots.keys().copied().collect()
    }

    /// Where a blob is.
    pub(crate) fn find(&self, id: BlobId) -> io::Result<Option<(Arc<File>, Slot)>> {
        let Some(slot) = self.slots.get(&id).copied() else { return Ok(None) };
        let file = self.handles.open(&self.path(slot.pack, "pack"))?;
        Ok(Some((file, slot)))
    }

    /// Whether a blob is there and was whole when this process first looked.
    pub(crate) fn is_good(&mut self, id: BlobId) -> io::Result<bool> {
        let Some((file, slot)) = self.find(id)? else { return Ok(false) };
        let good = slot.checked || is_whole(&file, id, slot)?;
        self.set_checked(id, slot, good);
        Ok(good)
    }

    /// Notes that a record is damaged, unless another one has taken its place.
    pub(crate) fn distrust(&mut self, id: BlobId, seen: Slot) {
        self.set_checked(id, seen, false);
    }

    fn set_checked(&mut self, id: BlobId, seen: Slot, good: bool) {
        if let Some(slot) = self.slots.get_mut(&id)
            && (slot.pack, slot.offset) == (seen.pack, seen.offset)
        {
            slot.checked = good;
        }
    }

    /// Appends a record, which becomes the one that is found. After an error it is as if nothing had been appended.
    pub(crate) fn append(&mut self, id: BlobId, bytes: &[u8]) -> io::Result<Written> {
        let (number, written) = self.grow()?;
        let offset = self.files.get(&number).map_or(0, |pack| pack.length);
        // A part that an error left is overwritten by the next record.
        written.file.write_all_at(&record::encode(id, bytes), offset)?;
        let length = bytes.len() as u32;
        if let Some(pack) = self.files.get_mut(&number) {
            pack.length = offset + record_bytes(length);
        }
        self.insert(number, Found { id, offset: offset as u32, length, good: true });
        Ok(written)
    }

    /// The pack to append to.
    fn grow(&mut self) -> io::Result<(u32, Written)> {
        if let Some(number) = self.growing {
            if self.files.get(&number).is_some_and(|pack| pack.length < self.full) {
                let path = self.path(number, "pack");
                let file = self.handles.open(&path)?;
                return Ok((number, Written { path, file }));
            }
            self.seal()?;
        }
        let number = self.next;
        let path = self.path(number, "pack");
        let file = match self.handles.create(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&self.directory)?;
                self.handles.create(&path)?
            }
            created => created?,
        };
        self.next += 1;
        self.files.insert(number, Pack::default());
        self.growing = Some(number);
        Ok((number, Written { path, file }))
    }

    /// Ends the growth of the pack that grows.
    fn seal(&mut self) -> io::Result<()> {
        if let Some(number) = self.growing {
            self.write_indexes(&[number])?;
            self.growing = None;
        }
        Ok(())
    }

    /// What these packs hold, in the order in which it lies there.
    fn blobs_of(&self, numbers: &[u32]) -> BTreeMap<u32, Vec<Found>> {
        let mut blobs: BTreeMap<u32, Vec<Found>> = numbers.iter().map(|number| (*number, Vec::new())).collect();
        for (id, slot) in &self.slots {
            if let Some(blobs) = blobs.get_mut(&slot.pack) {
                blobs.push(Found { id: *id, offset: slot.offset, length: slot.length, good: false });
            }
        }
        for blobs in blobs.values_mut() {
            blobs.sort_unstable_by_key(|found| found.offset);
        }
        blobs
    }

    fn write_indexes(&mut self, numbers: &[u32]) -> io::Result<()> {
        for (number, entries) in self.blobs_of(numbers) {
            let path = self.path(number, "index");
            if let Some(pack) = self.files.get_mut(&number) {
                index::write(&path, pack.length, &entries)?;
                pack.stale = false;
            }
        }
        Ok(())
    }

    /// Sees to it that what was removed stays away after a start, and names the packs of which a quarter or more is of no
    /// use: their blobs are to be [moved](Self::move_on).
    pub(crate) fn worthless(&mut self) -> io::Result<BTreeMap<u32, Vec<Found>>> {
        let (mut worthless, mut stale) = (Vec::new(), Vec::new());
        for (number, pack) in &self.files {
            if pack.length > 0 && (pack.length - pack.live) * 4 >= pack.length {
                worthless.push(*number);
            } else if pack.stale && self.growing != Some(*number) {
                stale.push(*number);
            }
        }
        if self.growing.is_some_and(|growing| worthless.contains(&growing)) {
            self.seal()?;
        }
        if !stale.is_empty() {
            self.write_indexes(&stale)?;
        }
        Ok(if worthless.is_empty() { BTreeMap::new() } else { self.blobs_of(&worthless) })
    }

    /// Appends a copy of a blob's record if it still lies in this pack. A damaged one stays: an error of kind `InvalidData`.
    pub(crate) fn move_on(&mut self, number: u32, id: BlobId) -> io::Result<Option<Written>> {
        match self.find(id)? {
            Some((file, slot)) if slot.pack == number => {
                let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the bytes are damaged");
                let bytes = read(&file, id, slot)?.ok_or_else(damaged)?;
                self.append(id, &bytes).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Removes a pack in which no blob is left; what was moved out of it is durable. Who has it open reads on.
    pub(crate) fn drop_empty(&mut self, number: u32) -> io::Result<()> {
        if self.files.get(&number).is_none_or(|pack| pack.live > 0) {
            return Ok(());
        }
        // An index without a pack means nothing; a pack without an index would be scanned.
        let path = self.path(number, "pack");
        fs::remove_file(&path)?;
        self.handles.close(&path);
        self.files.remove(&number);
        remove_if_there(&self.path(number, "index"))
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
