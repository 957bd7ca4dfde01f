//! Retry identity of a caller's request.

use crate::ids::{TurnId, WorkspaceId};
use crate::time::Timestamp;

/// Which request it was: the same caller-chosen key means the same request only within the same scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyScope {
    /// The face that received it.
    pub face: &'static str,
    /// The tenant.
    pub workspace_id: WorkspaceId,
    /// Method and route.
    pub route: &'static str,
    /// The caller's key.
    pub key: String,
}

impl IdempotencyScope {
    /// The longest key (UHP §7.4).
    pub const MAX_KEY: usize = 255;
}

/// A record: scope → a fingerprint of the caller's intent and a reference to the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// Which request it was.
    pub scope: IdempotencyScope,
    /// A hash of the intent.
    pub fingerprint: String,
    /// The turn that the first request made.
    pub turn_id: TurnId,
    /// When.
    pub created_at: Timestamp,
}
