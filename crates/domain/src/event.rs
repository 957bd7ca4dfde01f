//! The log of a session: what happened, in order, each with a number of its own.

use serde::{Deserialize, Serialize};

use crate::ids::{SessionId, TurnId};
use crate::item::Item;
use crate::time::Timestamp;

/// One entry of a session's log. Numbers start at 1 and have no gaps when they are given out; a delta that was replaced by
/// its finished item is folded away later, and its number stays unused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The session.
    pub session_id: SessionId,
    /// The number within the session.
    pub sequence: i64,
    /// The turn it belongs to.
    pub turn_id: TurnId,
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// The turn was admitted.
    TurnCreated,
    /// The turn's input was given to its harness.
    TurnStarted,
    /// An item began.
    ItemStarted {
        /// The item, still empty.
        item: Item,
    },
    /// Text was added to an item; replaced by the finished item when the turn ends.
    TextDelta {
        /// The item.
        item_id: String,
        /// The text.
        text: String,
    },
    /// An item is whole.
    ItemCompleted {
        /// The item.
        item: Item,
    },
    /// The turn ended; its row says how.
    TurnEnded,
}

impl EventKind {
    /// Whether the event is folded away once its item is whole.
    pub fn is_delta(&self) -> bool {
        matches!(self, EventKind::TextDelta { .. })
    }
}
