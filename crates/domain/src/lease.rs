//! Claims on work: who does it, until when, and under which fencing number.

use std::time::Duration;

use crate::ids::ServerId;
use crate::time::Timestamp;

/// A claim is part of a row. A step that completes writes back only if the claim is still its own, so a holder that was
/// believed dead and comes back finds its generation gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The server process that holds it.
    pub holder: ServerId,
    /// Until when nobody else may take it.
    pub until: Timestamp,
}

impl Lease {
    /// How long a claim lasts. A machine has one server, which takes its dead predecessor's claims over at its start, so the end
    /// matters only to servers of other machines, and to people who read the rows.
    pub const LENGTH: Duration = Duration::from_mins(1);

    /// How often whoever is at work renews his claim.
    pub const RENEWAL: Duration = Duration::from_secs(25);

    /// A fresh claim.
    pub fn taken(holder: ServerId, now: Timestamp) -> Self {
        Self { holder, until: now.plus(Self::LENGTH) }
    }

    /// Whether another server may take the work over.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.until
    }
}
