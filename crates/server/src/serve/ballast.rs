//! Room kept back for when the disk is full.
//!
//! A task can fill the disk faster than anybody looks, and then nothing could be written any more: not that the task has ended,
//! nor that somebody wants it deleted. So `<data>/ballast` takes up some room as long as there is enough, and gives it up a part
//! at a time when a write finds none. What ends and removes gets through with that; new work is refused ([`gate`](super::gate))
//! until the ballast is whole again, which a look once in a second sees to.
//!
//! A part at a time, because whoever has filled the disk may still run and take the part as well before its processes are ended.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;

use super::data_directory::{room, try_to_write};
use crate::adapters::RandomIds;

/// The file's name.
const NAME: &str = "ballast";
/// How much it keeps back, in bytes.
const WHOLE: u64 = 32 << 20;
/// How much it gives up at a time.
const PART: u64 = 8 << 20;
/// The least time between two parts: within it the processes of who fills the disk are found and ended.
const BETWEEN: Duration = Duration::from_secs(4);
/// With less than this left it is tried out whether anything can be written.
const LITTLE: u64 = 1 << 20;
/// What must be left beside a whole one.
const BESIDE: u64 = 16 << 20;
/// How often the disk is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The ballast of a data directory.
#[derive(Debug)]
pub(super) struct Ballast {
    directory: PathBuf,
    path: PathBuf,
    /// When the last part was given up.
    last: Mutex<Option<Instant>>,
    short: Arc<AtomicBool>,
}

impl Ballast {
    /// Looks at what an earlier process has left, and gives a part of it up when the disk is full: a start has to write.
    /// Blocking. The caller holds the data directory's lock.
    pub(super) fn open(directory: &Path) -> Arc<Self> {
        let (path, short) = (directory.join(NAME), Arc::default());
        let ballast = Self { directory: directory.to_owned(), path, last: Mutex::default(), short };
        ballast.forget_holes();
        // Without one there never was, or could be, more room than the disk had.
        let short = ballast.length().map_or_else(|| ballast.is_full(), |length| length < WHOLE || ballast.is_full());
        ballast.short.store(short, Ordering::SeqCst);
        if short && ballast.is_full() {
            ballast.give_up_a_part();
        }
        Arc::new(ballast)
    }

    /// Whether there is room for nothing but what ends and removes.
    pub(super) fn short(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.short)
    }

    /// Looks after it until the process ends.
    pub(super) fn keep(self: &Arc<Self>) {
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let mut looks = tokio::time::interval(LOOK);
            looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                looks.tick().await;
                let this = Arc::clone(&this);
                if tokio::task::spawn_blocking(move || this.look()).await.is_err() {
                    return;
                }
            }
        });
    }

    fn look(&self) {
        if self.is_full() {
            self.give_up_a_part();
            return;
        }
        let length = self.length();
        if length == Some(WHOLE) {
            self.short.store(false, Ordering::SeqCst);
            return;
        }
        let missing = WHOLE - length.unwrap_or(0).min(WHOLE);
        if room(&self.directory).is_none_or(|left| left < missing + BESIDE) {
            if length.is_none() {
                // The disk is too small for one.
                self.short.store(false, Ordering::SeqCst);
            }
            return;
        }
        match self.fill() {
            Ok(()) => {
                tracing::debug!(bytes = WHOLE, "room is kept back on the disk of the data directory");
                self.short.store(false, Ordering::SeqCst);
            }
            Err(error) => tracing::debug!(%error, "no room could be kept back on the disk"),
        }
    }

    fn is_full(&self) -> bool {
        room(&self.directory).is_some_and(|left| left < LITTLE) && try_to_write(&self.directory).is_err()
    }

    /// The file. Anything else of that name keeps nothing back.
    fn found(&self) -> Option<Metadata> {
        std::fs::symlink_metadata(&self.path).ok().filter(Metadata::is_file)
    }

    fn opened(&self) -> std::io::Result<File> {
        OpenOptions::new().write(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&self.path)
    }

    fn length(&self) -> Option<u64> {
        self.found().map(|found| found.len())
    }

    /// A copy may have holes where there was room, and keeps nothing back then.
    fn forget_holes(&self) {
        if let Some(found) = self.found()
            && found.blocks() * 512 < found.len() / 2
            && let Err(error) = self.opened().and_then(|file| file.set_len(0))
        {
            tracing::warn!(%error, "the ballast of the data directory has holes");
        }
    }

    /// Makes it whole, or leaves it as it was.
    fn fill(&self) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).append(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let mut file = options.open(&self.path)?;
        let before = file.metadata()?.len();
        let filled = match fallocate(&file, FallocateFlags::empty(), 0, WHOLE) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_noise(&mut file, WHOLE - before.min(WHOLE)),
            outcome => outcome.map_err(Into::into),
        };
        if filled.is_err() {
            file.set_len(before)?;
            if before == 0 {
                std::fs::remove_file(&self.path)?;
            }
        }
        filled
    }

    /// Says whether there is more room now.
    fn give_up_a_part(&self) -> bool {
        self.short.store(true, Ordering::SeqCst);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < BETWEEN) {
            return false;
        }
        let shorten = || {
            let file = self.opened()?;
            let before = file.metadata()?.len();
            file.set_len(before.saturating_sub(PART))?;
            std::io::Result::Ok(before)
        };
        match shorten() {
            Ok(0) => false,
            Ok(before) => {
                *last = Some(Instant::now());
                let left = before.saturating_sub(PART);
                tracing::error!(
                    left,
                    "the disk of the data directory is full: new work is refused until there is room, and what ends and removes is \
                     carried out with what was kept back"
                );
                true
            }
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => {
                tracing::warn!(%error, "the room that was kept back on the disk could not be given up");
                false
            }
        }
    }
}

impl stead_store::Relief for Ballast {
    fn make_room(&self, is_full: bool) -> bool {
        // The database may lie on another disk.
        let here = room(&self.directory).is_some_and(|left| left < PART);
        here && (is_full || self.is_full()) && self.give_up_a_part()
    }
}

/// Where room cannot be had without writing, it is written so that no file system can store it in less.
fn write_noise(file: &mut File, bytes: u64) -> std::io::Result<()> {
    use stead_domain::ports::IdSource;

    let mut state =
        RandomIds.secret().map(u64::from).iter().fold(1_u64, |state, byte| state.wrapping_mul(257) ^ byte) | 1;
    let mut piece = vec![0; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        for word in piece.chunks_exact_mut(8) {
            // Xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let length = left.min(piece.len() as u64) as usize;
        file.write_all(&piece[..length])?;
        left -= length as u64;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use stead_store::Relief as _;

    use super::*;

    #[test]
    fn it_is_made_where_there_is_room_and_kept_while_there_is() {
        let root = tempfile::tempdir().unwrap();
        let ballast = Ballast::open(root.path());
        assert!(!ballast.short().load(Ordering::SeqCst));
        ballast.look();
        let found = std::fs::metadata(root.path().join(NAME)).unwrap();
        assert!(found.len() == WHOLE && found.blocks() * 512 >= WHOLE, "{found:?}");
        assert!(!ballast.make_room(true) && !ballast.make_room(false), "the disk has room");
        assert_eq!(ballast.length(), Some(WHOLE));
        // What a process that ended in the midst of it has left counts as given up until it is whole.
        std::fs::File::create(root.path().join(NAME)).unwrap().set_len(PART).unwrap();
        let ballast = Ballast::open(root.path());
        assert!(ballast.short().load(Ordering::SeqCst) && ballast.length() == Some(0));
        ballast.look();
        assert!(!ballast.short().load(Ordering::SeqCst) && ballast.length() == Some(WHOLE));
    }

    #[test]
    fn it_goes_a_part_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let ballast = Ballast::open(root.path());
        assert!(!ballast.give_up_a_part(), "there is none");
        ballast.look();
        assert!(ballast.give_up_a_part());
        assert!(!ballast.give_up_a_part(), "not yet");
        assert!(ballast.short().load(Ordering::SeqCst) && ballast.length() == Some(WHOLE - PART));
    }

    #[test]
    fn noise_fills_to_the_byte() {
        let mut file = tempfile::tempfile().unwrap();
        write_noise(&mut file, (1 << 16) + 3).unwrap();
        assert_eq!(file.metadata().unwrap().len(), (1 << 16) + 3);
    }
}
