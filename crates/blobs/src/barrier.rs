//! Durability for many puts at the price of one flush.
//!
//! Puts are only noted. A caller of [`Barrier::wait`] needs a flush that *begins* after its call; whoever arrives while
//! one runs waits for the next, which serves all of them. A few noted files are flushed one by one, since flushing a
//! whole file system also waits for what others, a build say, are writing; more are flushed with one `syncfs`. Small blobs
//! share pack files, so that an import of any number of them dirties one or two.
//!
//! A flush that failed may have lost what it was to write, and the kernel reports that once. So all who waited for it
//! get the error, and the next flush covers the whole file system.

use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::packs::Written;

/// Up to how many files are flushed singly.
const SINGLY: usize = 2;
/// Up to how many packs are. Each is much data and belongs to another workspace, or was filled since.
const PACKS_SINGLY: usize = 16;

#[derive(Debug)]
pub(crate) struct Barrier {
    root: Arc<File>,
    root_path: PathBuf,
    state: Mutex<State>,
    progress: watch::Sender<Progress>,
}

#[derive(Debug)]
struct State {
    unflushed: Unflushed,
    /// The packs whose names are durable.
    named: HashSet<PathBuf>,
    /// Number of the flush that was begun last.
    begun: u64,
    /// Number of the flush that somebody waits for.
    wanted: u64,
    running: bool,
    /// Files that may have their final name already and are not noted yet. Another put may have found one of them.
    placing: usize,
    /// How often the file system was flushed as a whole, and files singly.
    #[cfg(test)]
    flushes: (u64, u64),
}

#[derive(Debug)]
enum Unflushed {
    Noted {
        files: Vec<PathBuf>,
        packs: BTreeMap<PathBuf, Arc<File>>,
    },
    /// Too many to name, or unknown because an earlier process or a failure left them.
    Everything,
}

impl Unflushed {
    const NOTHING: Self = Self::Noted { files: Vec::new(), packs: BTreeMap::new() };

    fn is_nothing(&self) -> bool {
        matches!(self, Self::Noted { files, packs } if files.is_empty() && packs.is_empty())
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    ended: u64,
    /// Number of the last flush that failed, with the system's error number.
    failed: Option<(u64, i32)>,
}

impl Barrier {
    /// A barrier for files beneath `root`. What an earlier process left unflushed is covered by the first flush.
    pub(crate) fn new(root_path: &Path) -> io::Result<Self> {
        Ok(Self {
            root: Arc::new(File::open(root_path)?),
            root_path: root_path.to_owned(),
            state: Mutex::new(State {
                unflushed: Unflushed::Everything,
                named: HashSet::new(),
                begun: 0,
                wanted: 0,
                running: false,
                placing: 0,
                #[cfg(test)]
                flushes: (0, 0),
            }),
            progress: watch::Sender::new(Progress::default()),
        })
    }

    #[cfg(test)]
    pub(crate) fn flushes(&self) -> (u64, u64) {
        self.lock().flushes
    }

    /// Number of the last flush that failed; zero before there was one. What was written before it may be lost, although it
    /// can still be read.
    pub(crate) fn failed(&self) -> u64 {
        self.progress.borrow().failed.map_or(0, |(number, _)| number)
    }

    /// Announces that a file is about to get its final name; [`Placing::note`] says that it has it.
    pub(crate) fn place(&self) -> Placing<'_> {
        self.lock().placing += 1;
        Placing(self)
    }

    /// Returns once everything noted before the call is durable.
    pub(crate) async fn wait(self: &Arc<Self>) -> io::Result<()> {
        let mut progress = self.progress.subscribe();
        let (target, concerns) = {
            let mut state = self.lock();
            if state.unflushed.is_nothing() && state.placing == 0 && !state.running {
                return Ok(());
            }
            let target = state.begun + 1;
            // One that runs may have been to write what the caller found there, and fail at it. One that has ended has told its outcome,
            // and when it failed the next one writes everything.
            let runs = state.running && progress.borrow().ended < state.begun;
            let concerns = if runs { state.begun } else { target };
            state.wanted = state.wanted.max(target);
            if !state.running {
                state.running = true;
                let barrier = Arc::clone(self);
                // Detached on purpose: a caller that goes away must not take the others' flush with it.
                tokio::task::spawn_blocking(move || barrier.run());
            }
            (target, concerns)
        };
        let reached = progress.wait_for(|progress| progress.ended >= target).await;
        match reached.map_err(|_| io::Error::other("the flush was abandoned"))?.failed {
            Some((number, error)) if number >= concerns => Err(io::Error::from_raw_os_error(error)),
            _ => Ok(()),
        }
    }

    fn run(&self) {
        loop {
            let (number, unflushed) = {
                let mut state = self.lock();
                if state.begun == state.wanted {
                    state.running = false;
                    return;
                }
                state.begun += 1;
                let noted = std::mem::replace(&mut state.unflushed, Unflushed::NOTHING);
                (state.begun, if state.placing > 0 { Unflushed::Everything } else { noted })
            };
            let result = self.flush(&unflushed);
            if result.is_err() {
                self.lock().unflushed = Unflushed::Everything;
            }
            self.progress.send_modify(|progress| {
                progress.ended = number;
                if let Err(error) = result {
                    tracing::error!(error.message = %error, "failed to make blobs durable");
                    progress.failed =
                        Some((number, error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error())));
                }
            });
        }
    }

    fn flush(&self, unflushed: &Unflushed) -> io::Result<()> {
        self.check_place()?;
        match unflushed {
            Unflushed::Noted { files, packs } => {
                #[cfg(test)]
                {
                    self.lock().flushes.1 += (files.len() + packs.len()) as u64;
                }
                packs.iter().try_for_each(|(path, file)| self.flush_pack(path, file))?;
                files.iter().try_for_each(|file| self.flush_file(file))
            }
            Unflushed::Everything => {
                #[cfg(test)]
                {
                    self.lock().flushes.0 += 1;
                }
                rustix::fs::syncfs(&*self.root).map_err(io::Error::from)
            }
        }
    }

    /// A directory that was put in the place of ours would be what the next start opens: nothing that is written to files that are
    /// open still counts as kept.
    fn check_place(&self) -> io::Result<()> {
        let (ours, named) = (self.root.metadata()?, std::fs::metadata(&self.root_path)?);
        if (ours.dev(), ours.ino()) == (named.dev(), named.ino()) {
            return Ok(());
        }
        Err(io::Error::from(io::ErrorKind::NotFound))
    }

    /// Notes that a pack was appended to. To be called before anybody can find what was appended.
    pub(crate) fn note_pack(&self, written: Written) {
        let mut state = self.lock();
        let Unflushed::Noted { packs, .. } = &mut state.unflushed else { return };
        if packs.contains_key(&written.path) {
            return;
        }
        if packs.len() < PACKS_SINGLY {
            packs.insert(written.path, written.file);
        } else {
            state.unflushed = Unflushed::Everything;
        }
    }

    /// Flushes a pack, and its name when that is new; blocking.
    pub(crate) fn flush_pack(&self, path: &Path, file: &File) -> io::Result<()> {
        file.sync_data()?;
        if !self.lock().named.contains(path) {
            self.flush_directories(path)?;
            self.lock().named.insert(path.to_owned());
        }
        Ok(())
    }

    /// Flushes a file, then every directory up to the root, any of which may be new.
    fn flush_file(&self, file: &Path) -> io::Result<()> {
        match File::open(file) {
            Ok(file) => file.sync_all()?,
            // Collected meanwhile; there is nothing left to keep.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.flush_directories(file)
    }

    fn flush_directories(&self, file: &Path) -> io::Result<()> {
        for directory in file.ancestors().skip(1).take_while(|directory| directory.starts_with(&self.root_path)) {
            File::open(directory)?.sync_all()?;
        }
        Ok(())
    }

    // The state's fields are set together, without anything between them that could panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that is getting its final name.
pub(crate) struct Placing<'a>(&'a Barrier);

impl Placing<'_> {
    /// Notes the file, which now has its final name.
    pub(crate) fn note(self, file: PathBuf) {
        let mut state = self.0.lock();
        match &mut state.unflushed {
            Unflushed::Noted { files, .. } if files.len() < SINGLY => files.push(file),
            unflushed => *unflushed = Unflushed::Everything,
        }
    }
}

impl Drop for Placing<'_> {
    fn drop(&mut self) {
        self.0.lock().placing -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn overlapping_callers_share_flushes() {
        let directory = tempfile::tempdir().unwrap();
        let barrier = Arc::new(Barrier::new(directory.path()).unwrap());
        barrier.wait().await.unwrap();
        assert_eq!(barrier.lock().flushes, (1, 0), "the first one covers what an earlier process left");
        barrier.wait().await.unwrap();
        assert_eq!(barrier.lock().flushes, (1, 0), "nothing was put since");

        let file = directory.path().join("one");
        std::fs::write(&file, b"1").unwrap();
        barrier.place().note(file);
        barrier.wait().await.unwrap();
        assert_eq!(barrier.lock().flushes, (1, 1));

        let callers: Vec<_> = (0..64)
            .map(|index| {
                let (barrier, file) = (Arc::clone(&barrier), directory.path().join(format!("{index}")));
                tokio::spawn(async move {
                    std::fs::write(&file, b"x").unwrap();
                    barrier.place().note(file);
                    barrier.wait().await
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap().unwrap();
        }
        let flushes = barrier.lock().flushes;
        // A file that is named but not noted yet may have been found by another put: it forces a whole flush.
        let placing = barrier.place();
        barrier.wait().await.unwrap();
        assert_eq!(barrier.lock().flushes.0, flushes.0 + 1);
        drop(placing);
        barrier.wait().await.unwrap();
        let state = barrier.lock();
        assert_eq!(state.flushes.0, flushes.0 + 1);
        assert!(state.unflushed.is_nothing());
        assert!(state.begun < 60, "{} flushes for 64 callers", state.begun);
    }

    #[tokio::test]
    async fn a_failed_flush_fails_those_who_waited_and_widens_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let barrier = Arc::new(Barrier::new(directory.path()).unwrap());
        barrier.wait().await.unwrap();
        // A path below a file gives an error that is not "not found".
        let file = directory.path().join("file");
        std::fs::write(&file, b"").unwrap();
        barrier.place().note(file.join("below"));
        assert!(barrier.wait().await.is_err());
        barrier.wait().await.unwrap();
        assert_eq!(barrier.lock().flushes.0, 2);
    }
}
