//! Content-addressed bytes.

use std::io::Read;
use std::path::PathBuf;

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

/// Content-addressed bytes: identical bytes are kept once per workspace, and never shared between workspaces.
///
/// The methods that end in `_blocking` are for code that already runs on a blocking thread (imports, builds). A put is
/// durable only after a later [`sync`](Blobs::sync) returns; a commit that names blobs is preceded by one sync, however many
/// blobs it names.
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

    /// Returns once everything put before this call is durable. Calls that overlap share the work.
    fn sync(&self) -> PortFuture<'_, Result<(), BlobError>>;
}
