//! What a turn shows for its work.

use serde::{Deserialize, Serialize};

/// One item of a turn's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// Something the agent said.
    Message {
        /// Names the item within its turn.
        id: String,
        /// Its text.
        text: String,
        /// Whether it is whole; a message cut short by a cancel or a failure is not.
        complete: bool,
    },
}

impl Item {
    /// The item's name within its turn.
    pub fn id(&self) -> &str {
        match self {
            Item::Message { id, .. } => id,
        }
    }

    /// The text that the item contributes to the turn's answer.
    pub fn text(&self) -> &str {
        match self {
            Item::Message { text, .. } => text,
        }
    }
}
