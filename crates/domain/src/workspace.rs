//! The tenant.

use crate::ids::WorkspaceId;
use crate::time::Timestamp;

/// A tenant: every object belongs to exactly one, and nothing of one is visible in another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Its identity.
    pub id: WorkspaceId,
    /// A label for people.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
}
