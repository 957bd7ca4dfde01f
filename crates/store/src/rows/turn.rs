//! Turns.

use stead_domain::turn::Turn;

use crate::table::table;

table!(columns, Turn in "turns" {
    "id" = "$1";
    "workspace_id" = "$2", "session_id" = "$3", "number" = "$4", "previous" = "$5", "agent_id" = "$6", "harness" = "$7",
    "state" = "$8", "input" = "$9", "reads_project_id" = "$10", "reads_version" = "$11", "time_limit_us" = "$12",
    "ignored_fields" = "$13", "requested_model" = "$14", "store" = "$15", "outcome" = "$16", "lease_holder" = "$17",
    "lease_until" = "$18", "created_at" = "$19", "started_at" = "$20", "finished_at" = "$21", "deleted_at" = "$22",
    "network" = "$23";
    row_version = "$24"
} id, workspace_id, session_id, number, previous, agent_id, harness, state, input, reads, time_limit, ignored_fields,
    requested_model, store, outcome, lease, created_at, started_at, finished_at, deleted_at, network, row_version);

/// Workspace, id.
pub(crate) const FETCH: &str = concat!("SELECT ", columns!(), " FROM turns WHERE workspace_id = $1 AND id = $2");
/// Session.
pub(crate) const LIST: &str = concat!("SELECT ", columns!(), " FROM turns WHERE session_id = $1 ORDER BY number");
/// Node.
pub(crate) const UNENDED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM turns WHERE state IN ('queued', 'in_progress', 'cancelling') AND EXISTS (",
    "SELECT 1 FROM attachments a JOIN environments e ON e.id = a.environment_id",
    " WHERE a.session_id = turns.session_id AND e.node = $1) ORDER BY id"
);
/// Workspace. Inputs that may name files: how a text inside of one is quoted, it may look like it, too.
pub(crate) const INPUTS_WITH_FILES: &str =
    "SELECT input FROM turns WHERE workspace_id = $1 AND input LIKE '%\"blob\":%'";
