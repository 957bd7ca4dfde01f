//! Uploaded files and artifacts.

use crate::digest::BlobId;
use crate::ids::{FileId, SessionId, TurnId, WorkspaceId};
use crate::time::Timestamp;

/// A file that a client uploaded for its tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Its identity.
    pub id: FileId,
    /// Its tenant.
    pub workspace_id: WorkspaceId,
    /// The name it came with, without any directory.
    pub filename: String,
    /// What the client said it is for.
    pub purpose: String,
    /// The media type it came with.
    pub media_type: String,
    /// Its size.
    pub bytes: u64,
    /// Its bytes.
    pub blob: BlobId,
    /// When it came.
    pub created_at: Timestamp,
}

/// A file that a turn left in its session's working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Its identity.
    pub id: FileId,
    /// Its tenant.
    pub workspace_id: WorkspaceId,
    /// The session it came from.
    pub session_id: SessionId,
    /// The turn that made or changed it.
    pub turn_id: TurnId,
    /// Its path relative to the working directory.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its bytes.
    pub blob: BlobId,
    /// When it was collected.
    pub created_at: Timestamp,
}

/// Bounds on what one turn may hand back. What exceeds them is named on the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactLimits {
    /// Files per turn.
    pub files: usize,
    /// Bytes per file.
    pub file_bytes: u64,
    /// Bytes per turn.
    pub turn_bytes: u64,
}

impl Default for ArtifactLimits {
    fn default() -> Self {
        Self { files: 4096, file_bytes: 200 << 20, turn_bytes: 500 << 20 }
    }
}
