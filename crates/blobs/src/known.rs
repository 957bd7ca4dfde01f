//! Which blobs in files of their own this process has seen whole.
//!
//! After a power cut a file that was never synced may have its name and not its bytes. Such a blob is referred to by
//! no commit, but a later put of the same bytes would find it and be satisfied. And a file may be damaged while the server
//! runs. So content is checked against its address before a blob is served or a put relies on it; this is the memory of
//! those checks, each for the file as it was: one that has changed since is checked again.
//!
//! After a flush that failed, the bytes of a file may be in the machine's memory alone, where no check tells. So every file
//! that this process had placed by then is suspect: it is served, and a put replaces it.

use std::{
    collections::{HashMap, HashSet},
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
    sync::{Mutex, MutexGuard, PoisonError},
};

use stead_domain::{BlobId, WorkspaceId};

/// How many are remembered, at about a hundred and fifty bytes each; when full, all are forgotten and checked again.
const REMEMBERED: usize = 200_000;

/// What changes when a file is written to or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    place: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            place: (metadata.dev(), metadata.ino()),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<Files>);

#[derive(Debug, Default)]
struct Files {
    whole: HashMap<(WorkspaceId, BlobId), Stamp>,
    /// Placed by this process, as many as are remembered; those before them were flushed long ago.
    placed: HashSet<(WorkspaceId, BlobId)>,
    suspect: HashSet<(WorkspaceId, BlobId)>,
    /// Number of the failed flush that was heard of last.
    failed: u64,
}

impl Known {
    /// Whether the blob was seen whole in the file as it is.
    pub(crate) fn contains(&self, workspace: WorkspaceId, id: BlobId, stamp: Stamp) -> bool {
        self.lock().whole.get(&(workspace, id)) == Some(&stamp)
    }

    pub(crate) fn insert(&self, workspace: WorkspaceId, id: BlobId, stamp: Stamp) {
        self.lock().insert((workspace, id), stamp);
    }

    /// Notes a file that was just placed and holds what it should.
    pub(crate) fn placed(&self, workspace: WorkspaceId, id: BlobId, stamp: Stamp) {
        let mut files = self.lock();
        files.insert((workspace, id), stamp);
        files.suspect.remove(&(workspace, id));
        if files.placed.len() >= REMEMBERED {
            files.placed.clear();
        }
        files.placed.insert((workspace, id));
    }

    /// Whether the blob's file may have lost its bytes, where the last flush that failed has this number.
    pub(crate) fn is_suspect(&self, workspace: WorkspaceId, id: BlobId, failed: u64) -> bool {
        let mut files = self.lock();
        if files.failed != failed {
            files.failed = failed;
            let placed = std::mem::take(&mut files.placed);
            files.suspect.extend(placed);
        }
        files.suspect.contains(&(workspace, id))
    }

    // A panic between two operations leaves sets that are merely incomplete.
    fn lock(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files {
    fn insert(&mut self, blob: (WorkspaceId, BlobId), stamp: Stamp) {
        if self.whole.len() >= REMEMBERED {
            self.whole.clear();
        }
        self.whole.insert(blob, stamp);
    }
}
