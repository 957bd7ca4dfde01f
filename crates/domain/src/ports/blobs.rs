//! Content-addressed bytes.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use super::{BlobFile, PortFuture};
use crate::digest::BlobId;
use crate::ids::WorkspaceId;

/// A fault of the blob store.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// There are no such bytes.
    #[error("blob {0} is not there")]
    Missing(BlobId),
    /// The bytes are not what their address says.
    #[error("blob {0} is damaged")]
    Damaged(BlobId),
    /// The store does not answer.
    #[error("failed to {action} in the blob store")]
    Io {
        /// What was being done.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
}

/// Bytes that were stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredBlob {
    /// Their address.
    pub id: BlobId,
    /// Their number.
    pub bytes: u64,
}

/// How much a workspace has stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobUsage {
    /// Blobs.
    pub blobs: u64,
    /// The sum of their lengths.
    pub bytes: u64,
}

/// What a collection did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// What is gone.
    pub removed: BlobUsage,
    /// How many blobs are marked now, to go when the grace has passed.
    pub marked: u64,
}

/// Content-addressed bytes: identical bytes are kept once per workspace, and never shared between workspaces.
///
/// The methods that end in `_blocking` are for code that already runs on a blocking thread (imports, builds). A put is
/// durable only after a later [`sync`](Blobs::sync) returns; a commit that names blobs is preceded by one sync, however many
/// blobs it names.
///
/// A blob that nothing names is collected in two steps, so that bytes which were just stored outlive the time until the commit
/// that names them: see [`collect_blocking`](Blobs::collect_blocking).
pub trait Blobs: Send + Sync {
    /// Stores bytes that are at hand.
    fn put(&self, workspace: WorkspaceId, bytes: Vec<u8>) -> PortFuture<'_, Result<StoredBlob, BlobError>>;

    /// Stores what a reader gives; blocking.
    fn put_blocking(&self, workspace: WorkspaceId, reader: &mut dyn Read) -> Result<StoredBlob, BlobError>;

    /// Takes a finished file over (it is moved, or copied where it cannot be), hashing it; blocking.
    fn adopt_blocking(&self, workspace: WorkspaceId, file: PathBuf) -> Result<StoredBlob, BlobError>;

    /// Opens a blob; blocking.
    fn open_blocking(&self, workspace: WorkspaceId, id: BlobId) -> Result<BlobFile, BlobError>;

    /// Reads a whole blob into memory; for small ones.
    fn read(&self, workspace: WorkspaceId, id: BlobId) -> PortFuture<'_, Result<Vec<u8>, BlobError>>;

    /// Opens a blob, for streaming.
    fn open(&self, workspace: WorkspaceId, id: BlobId) -> PortFuture<'_, Result<BlobFile, BlobError>>;

    /// The workspaces that have, or had, blobs; blocking.
    fn workspaces_blocking(&self) -> Result<Vec<WorkspaceId>, BlobError>;

    /// How much a workspace has stored, from counters; blocking, since the first call for a workspace may have to count.
    fn usage_blocking(&self, workspace: WorkspaceId) -> Result<BlobUsage, BlobError>;

    /// [`usage_blocking`](Self::usage_blocking) for asynchronous code.
    fn usage(&self, workspace: WorkspaceId) -> PortFuture<'_, Result<BlobUsage, BlobError>>;

    /// Marks the blobs that are not named, and removes those that an earlier call marked more than `grace` before this one and
    /// that were neither put nor opened since; blocking.
    ///
    /// `is_named` answers from names that were read just before the call; it is asked once per blob and may block. `grace`
    /// has to be longer than the longest time between a put, or an open, and the end of the commit that names the blob, by
    /// as much as passes between that reading and the call. Marks live in memory: a restart begins the grace anew. Blobs that
    /// are open stay readable.
    fn collect_blocking(
        &self,
        workspace: WorkspaceId,
        is_named: &dyn Fn(BlobId) -> bool,
        grace: Duration,
    ) -> Result<Collected, BlobError>;

    /// Returns once everything put before this call is durable. Calls that overlap share the work.
    fn sync(&self) -> PortFuture<'_, Result<(), BlobError>>;
}
