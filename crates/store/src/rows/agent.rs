//! Agents.

use stead_domain::agent::Agent;

use crate::table::table;

table!(columns, Agent in "agents" {
    "id" = "$1";
    "workspace_id" = "$2", "name" = "$3", "harness" = "$4", "instructions" = "$5", "default_model" = "$6",
    "project_id" = "$7", "disabled_tools" = "$8", "max_step" = "$9", "time_limit_us" = "$10", "created_at" = "$11",
    "updated_at" = "$12", "deleted_at" = "$13", "network" = "$14";
    row_version = "$15"
} id, workspace_id, name, harness, instructions, default_model, project_id, disabled_tools, max_step, time_limit,
    created_at, updated_at, deleted_at, network, row_version);

/// Workspace, id.
pub(crate) const FETCH: &str = concat!("SELECT ", columns!(), " FROM agents WHERE workspace_id = $1 AND id = $2");
/// Workspace.
pub(crate) const LIST: &str =
    concat!("SELECT ", columns!(), " FROM agents WHERE workspace_id = $1 AND deleted_at IS NULL ORDER BY id");
/// Workspace, project.
pub(crate) const OF_PROJECT: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM agents WHERE workspace_id = $1 AND project_id = $2 AND deleted_at IS NULL ORDER BY id"
);
/// An instant before which all were deleted, how many. Deleted sessions are asked about apart, since each has an index of its own.
pub(crate) const REMOVE_DELETED: &str = "DELETE FROM agents WHERE id IN (SELECT a.id FROM agents a \
    WHERE a.deleted_at IS NOT NULL AND a.deleted_at < $1 \
    AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.agent_id = a.id AND s.deleted_at IS NULL) \
    AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.agent_id = a.id AND s.deleted_at IS NOT NULL) \
    ORDER BY a.id LIMIT $2)";
