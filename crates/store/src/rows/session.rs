//! Sessions.

use stead_domain::session::Session;

use crate::table::table;

table!(columns, Session in "sessions" {
    "id" = "$1";
    "workspace_id" = "$2", "face" = "$3", "agent_id" = "$4", "harness" = "$5", "title" = "$6", "project_id" = "$7",
    "active_turn" = "$8", "latest_turn" = "$9", "latest_state" = "$10", "turns" = "$11", "next_sequence" = "$12",
    "created_at" = "$13", "updated_at" = "$14", "deleted_at" = "$15";
    row_version = "$16"
} id, workspace_id, face, agent_id, harness, title, project_id, active_turn, latest_turn, latest_state, turns,
    next_sequence, created_at, updated_at, deleted_at, row_version);

/// Later than every id, for a list that begins at the newest.
pub(crate) const NEWEST: &str = "~";

/// Workspace, id.
pub(crate) const FETCH: &str = concat!("SELECT ", columns!(), " FROM sessions WHERE workspace_id = $1 AND id = $2");
/// Workspace, an id that all are older than, how many.
pub(crate) const LIST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM sessions WHERE workspace_id = $1 AND id < $2 AND deleted_at IS NULL ORDER BY id DESC LIMIT $3"
);
/// Workspace, an id that all are older than, how many, agent.
pub(crate) const LIST_OF_AGENT: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM sessions WHERE workspace_id = $1 AND id < $2 AND agent_id = $4 AND deleted_at IS NULL",
    " ORDER BY id DESC LIMIT $3"
);
/// Node. What remains of a session is looked after where its environment lives or lived; one that never had an environment
/// is anybody's.
pub(crate) const DELETED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM sessions WHERE deleted_at IS NOT NULL AND (",
    "EXISTS (SELECT 1 FROM attachments a JOIN environments e ON e.id = a.environment_id",
    " WHERE a.session_id = sessions.id AND e.node = $1)",
    " OR NOT EXISTS (SELECT 1 FROM attachments a JOIN environments e ON e.id = a.environment_id",
    " WHERE a.session_id = sessions.id)) ORDER BY id"
);

/// What a session leaves, in the order in which it is removed: retry records are found by the turns, and environments that are gone, with
/// what was done about them, by the attachments. Session.
pub(crate) const REMOVE: [&str; 8] = [
    "DELETE FROM idempotency_records WHERE turn_id IN (SELECT id FROM turns WHERE session_id = $1)",
    concat!(
        "DELETE FROM operations WHERE environment_id IN (SELECT e.id FROM attachments a",
        " JOIN environments e ON e.id = a.environment_id WHERE a.session_id = $1 AND e.state = 'deleted')"
    ),
    concat!(
        "DELETE FROM environments WHERE state = 'deleted'",
        " AND id IN (SELECT environment_id FROM attachments WHERE session_id = $1)"
    ),
    "DELETE FROM artifacts WHERE session_id = $1",
    "DELETE FROM events WHERE session_id = $1",
    "DELETE FROM attachments WHERE session_id = $1",
    "DELETE FROM turns WHERE session_id = $1",
    "DELETE FROM sessions WHERE id = $1",
];
