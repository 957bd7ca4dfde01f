//! Which blobs this process has seen whole.
//!
//! After a power cut a file that was never synced may have its name and not its bytes. Such a blob is referred to by
//! no commit, but a later put of the same bytes would find it and be satisfied. Therefore content is checked against
//! its address once per process, before a blob is served or a put relies on it; this is the memory of those checks.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use stead_domain::{BlobId, WorkspaceId};

/// How many are remembered, at about a hundred bytes each; when full, all are forgotten and checked again.
const REMEMBERED: usize = 200_000;

#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<(WorkspaceId, BlobId), u64>>);

impl Known {
    /// Whether the blob was seen whole with this length.
    pub(crate) fn contains(&self, workspace: WorkspaceId, id: BlobId, bytes: u64) -> bool {
        self.lock().get(&(workspace, id)) == Some(&bytes)
    }

    pub(crate) fn insert(&self, workspace: WorkspaceId, id: BlobId, bytes: u64) {
        let mut known = self.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert((workspace, id), bytes);
    }

    // A panic between two operations on the map leaves a map that is merely incomplete.
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(WorkspaceId, BlobId), u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
