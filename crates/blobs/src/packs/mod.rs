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
//!
//! What in the directory cannot be read is left where it is and out of account, so that it costs the blobs in it and no others.

mod handles;
pub(crate) mod index;
pub(crate) mod record;

use std::collections::{BTreeMap, BTreeSet, HashMap};
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
    /// The packs that this process has appended to since a flush failed.
    written: BTreeSet<u32>,
    /// Those that it had appended to before: what a put finds there may be lost, although it can still be read.
    suspect: BTreeSet<u32>,
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
            written: BTreeSet::new(),
            suspect: BTreeSet::new(),
            handles,
        };
        let numbers = packs.list()?;
        packs.next = numbers.last().map_or(0, |number| number + 1);
        for number in &numbers {
            if let Err(error) = packs.load_one(*number, numbers.last() == Some(number)) {
                let pack = packs.path(*number, "pack");
                tracing::error!(pack = %pack.display(), error.message = %error, "a pack cannot be read and is left out");
            }
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
            let number = path.file_stem().and_then(|stem| number(stem.to_str()?));
            match (number, path.extension().and_then(|extension| extension.to_str())) {
                (Some(number), Some("pack")) => numbers.push(number),
                (Some(number), Some("index")) => others.push((number, path)),
                (Some(_), Some("new")) => remove_or_say(&path),
                _ => {}
            }
        }
        numbers.sort_unstable();
        for (number, path) in others {
            if numbers.binary_search(&number).is_err() {
                remove_or_say(&path);
            }
        }
        Ok(numbers)
    }

    fn load_one(&mut self, number: u32, last: bool) -> io::Result<()> {
        let path = self.path(number, "pack");
        let metadata = fs::metadata(&path)?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let length = metadata.len();
        let index = index::read(&self.path(number, "index"), length).unwrap_or_else(|error| {
            tracing::warn!(pack = %path.display(), error.message = %error, "the index of a pack cannot be read");
            None
        });
        if let Some(entries) = index {
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
        if !grows {
            self.write_indexes(&[number]);
            return Ok(());
        }
        match self.handles.open(&path).and_then(|file| file.set_len(length)) {
            Ok(()) => self.growing = Some(number),
            Err(error) => {
                tracing::error!(pack = %path.display(), error.message = %error, "a pack cannot be written and grows no more");
            }
        }
        Ok(())
    }

    /// Makes a record the one that is found by its address.
    fn insert(&mut self, number: u32, found: Found) {
        self.remove(found.id);
        let slot = Slot { pack: number, offset: found.offset, length: found.length };
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

    /// Whether a blob is there and whole, as it lies there now, and a put may rely on that. One that cannot be read counts as
    /// absent, so that a put repairs it.
    pub(crate) fn is_good(&self, id: BlobId) -> bool {
        let whole = match self.find(id) {
            Ok(Some((_, slot))) if self.suspect.contains(&slot.pack) => return false,
            Ok(Some((file, slot))) => is_whole(&file, id, slot),
            Ok(None) => return false,
            Err(error) => Err(error),
        };
        whole.unwrap_or_else(|error| {
            tracing::error!(blob.id = %id, error.message = %error, "a blob cannot be read and is stored anew");
            false
        })
    }

    /// A flush failed: what was appended may be in the machine's memory alone. Nothing more is appended there, and puts rely
    /// on nothing there. Without an index the next start finds out what is left.
    pub(crate) fn suspect_written(&mut self) {
        self.suspect.append(&mut self.written);
        self.growing = None;
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
        self.written.insert(number);
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
            self.seal();
        }
        let (number, path, file) = self.create()?;
        self.files.insert(number, Pack::default());
        self.growing = Some(number);
        Ok((number, Written { path, file }))
    }

    /// Makes the next pack.
    fn create(&mut self) -> io::Result<(u32, PathBuf, Arc<File>)> {
        loop {
            let number = self.next;
            let path = self.path(number, "pack");
            match self.handles.create(&path) {
                Ok(file) => {
                    self.next += 1;
                    return Ok((number, path, file));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(&self.directory)?,
                // Something that is not ours.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.next += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends the growth of the pack that grows.
    fn seal(&mut self) {
        if let Some(number) = self.growing.take() {
            self.write_indexes(&[number]);
        }
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

    /// Writes indexes as far as it can: a pack without one is scanned at the next start.
    fn write_indexes(&mut self, numbers: &[u32]) {
        for (number, entries) in self.blobs_of(numbers) {
            let path = self.path(number, "index");
            let Some(pack) = self.files.get_mut(&number) else { continue };
            match index::write(&path, pack.length, &entries) {
                Ok(()) => pack.stale = false,
                Err(error) => {
                    tracing::warn!(index = %path.display(), error.message = %error, "a pack's index cannot be written");
                }
            }
        }
    }

    /// Sees to it that what was removed stays away after a start, and names the packs of which a quarter or more is of no
    /// use: their blobs are to be [moved](Self::move_on).
    pub(crate) fn worthless(&mut self) -> BTreeMap<u32, Vec<Found>> {
        let (mut worthless, mut stale) = (Vec::new(), Vec::new());
        for (number, pack) in &self.files {
            if pack.length > 0 && (pack.length - pack.live) * 4 >= pack.length {
                worthless.push(*number);
            } else if pack.stale && self.growing != Some(*number) {
                stale.push(*number);
            }
        }
        if self.growing.is_some_and(|growing| worthless.contains(&growing)) {
            self.seal();
        }
        if !stale.is_empty() {
            self.write_indexes(&stale);
        }
        if worthless.is_empty() { BTreeMap::new() } else { self.blobs_of(&worthless) }
    }

    /// Appends a copy of a blob's record if it still lies in this pack. One that is damaged or cannot be read stays: an error of
    /// kind `InvalidData`.
    pub(crate) fn move_on(&mut self, number: u32, id: BlobId) -> io::Result<Option<Written>> {
        if self.slots.get(&id).is_none_or(|slot| slot.pack != number) {
            return Ok(None);
        }
        let found = self.find(id).and_then(|found| found.map_or(Ok(None), |(file, slot)| read(&file, id, slot)));
        let unreadable = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let bytes = found.map_err(unreadable)?.ok_or_else(|| unreadable(io::Error::other("the bytes are damaged")))?;
        self.append(id, &bytes).map(Some)
    }

    /// Removes a pack in which no blob is left; what was moved out of it is durable. Who has it open reads on.
    pub(crate) fn drop_empty(&mut self, number: u32) -> io::Result<()> {
        if self.files.get(&number).is_none_or(|pack| pack.live > 0) {
            return Ok(());
        }
        // An index without a pack means nothing; a pack without an index would be scanned.
        let path = self.path(number, "pack");
        remove_if_there(&path)?;
        self.handles.close(&path);
        self.files.remove(&number);
        self.suspect.remove(&number);
        self.written.remove(&number);
        remove_or_say(&self.path(number, "index"));
        Ok(())
    }
}

/// The number that a name states. The highest is nobody's: another follows every pack.
fn number(stem: &str) -> Option<u32> {
    let number = u32::from_str_radix(stem, 16).ok().filter(|number| *number < u32::MAX)?;
    (stem == format!("{number:08x}")).then_some(number)
}

/// Removes what is of no use and does no harm.
fn remove_or_say(path: &Path) {
    if let Err(error) = remove_if_there(path) {
        tracing::error!(path = %path.display(), error.message = %error, "what is of no use cannot be removed");
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
