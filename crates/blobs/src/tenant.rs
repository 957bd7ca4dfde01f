//! What is known about one workspace's blobs, and the lock around it.
//!
//! Whoever relies on a blob that is there takes its mark away under this lock before looking for it, and a collection
//! removes a blob under this lock if its mark is still there. So a put either finds the blob and keeps it, or misses it and
//! stores it anew.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use stead_domain::{BlobId, WorkspaceId, ports::BlobUsage};

use crate::{
    packs::{Handles, Packs},
    singles,
};

/// A workspace whose directory was read.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) id: WorkspaceId,
    pub(crate) directory: PathBuf,
    state: Mutex<State>,
    /// Held by the one collection that runs.
    collecting: Mutex<()>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) packs: Packs,
    /// Whether there may be blobs in files of their own.
    pub(crate) has_singles: bool,
    /// How many, once they were counted.
    pub(crate) singles: Option<BlobUsage>,
    /// Number of the failed flush that the packs were told of.
    failed: u64,
    /// Since when a blob is known to be named by nothing, unless it was put or opened since.
    pub(crate) marks: HashMap<BlobId, Instant>,
}

impl Tenant {
    /// Reads what a workspace has; blocking. A pack counts as full from `full` bytes on.
    pub(crate) fn load(root: &Path, id: WorkspaceId, full: u64, handles: Arc<Handles>) -> io::Result<Self> {
        let directory = root.join(id.to_string());
        let state = State {
            packs: Packs::load(directory.join("packs"), full, handles)?,
            has_singles: !singles::shards(&directory)?.is_empty(),
            singles: None,
            failed: 0,
            marks: HashMap::new(),
        };
        Ok(Self { id, directory, state: Mutex::new(state), collecting: Mutex::new(()) })
    }

    // A panic below the lock leaves wrong counters or a record that nothing points to; both end with the process.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn collecting(&self) -> MutexGuard<'_, ()> {
        self.collecting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn usage(&self) -> io::Result<BlobUsage> {
        let mut state = self.lock();
        let singles = match state.singles {
            Some(singles) => singles,
            None => {
                let list = singles::list(&self.directory)?;
                let bytes = list.iter().map(|single| single.bytes).sum();
                *state.singles.insert(BlobUsage { blobs: list.len() as u64, bytes })
            }
        };
        let (blobs, bytes) = state.packs.usage();
        Ok(BlobUsage { blobs: blobs + singles.blobs, bytes: bytes + singles.bytes })
    }
}

impl State {
    /// Tells the packs of the last flush that failed, which has this number, once.
    pub(crate) fn flush_failed(&mut self, failed: u64) {
        if self.failed != failed {
            self.failed = failed;
            self.packs.suspect_written();
        }
    }

    /// Counts a blob that got a file of its own.
    pub(crate) fn single_added(&mut self, bytes: u64) {
        self.has_singles = true;
        if let Some(singles) = &mut self.singles {
            singles.blobs += 1;
            singles.bytes += bytes;
        }
    }
}
