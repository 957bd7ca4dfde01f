//! The logs of sessions.

use stead_domain::event::Event;

use crate::table::table;

table!(columns, Event in "events" {
    "session_id" = "$1"; "sequence" = "$2", "turn_id" = "$3", "at" = "$4", "is_delta" = "$5", "kind" = "$6"
} session_id, sequence, turn_id, at, kind);

/// How many columns an event has.
pub(crate) const WIDTH: usize = 6;
/// Followed by tuples of values.
pub(crate) const INSERT_MANY: &str = concat!("INSERT INTO events (", columns!(), ") VALUES ");
/// Follows the tuples.
pub(crate) const UNLESS_TAKEN: &str = " ON CONFLICT DO NOTHING";

/// Session, a number, how many.
pub(crate) const AFTER: &str =
    concat!("SELECT ", columns!(), " FROM events WHERE session_id = $1 AND sequence > $2 ORDER BY sequence LIMIT $3");
/// Turn.
pub(crate) const REMOVE_DELTAS: &str = "DELETE FROM events WHERE turn_id = $1 AND is_delta = 1";
/// Session, how many.
pub(crate) const REMOVE_SOME: &str = "DELETE FROM events WHERE session_id = $1 AND sequence IN \
    (SELECT sequence FROM events WHERE session_id = $1 ORDER BY sequence LIMIT $2)";
