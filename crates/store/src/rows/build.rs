//! Builds, and the versions they made.

use stead_domain::build::Build;

use crate::table::table;

table!(columns, Build in "builds" {
    "project_id" = "$1", "number" = "$2";
    "workspace_id" = "$3", "state" = "$4", "stage" = "$5", "snapshot" = "$6", "fresh" = "$7", "node" = "$8",
    "lease_holder" = "$9", "lease_until" = "$10", "started_at" = "$11", "finished_at" = "$12", "failure" = "$13",
    "version" = "$14", "declared" = "$15", "network" = "$16";
    row_version = "$17"
} project_id, number, workspace_id, state, stage, snapshot, fresh, node, lease, started_at, finished_at, failure, version,
    declared, network, row_version);
pub(crate) use columns as build_columns;

/// Project, number.
pub(crate) const FETCH: &str = concat!("SELECT ", columns!(), " FROM builds WHERE project_id = $1 AND number = $2");
/// Project.
pub(crate) const LIST: &str = concat!("SELECT ", columns!(), " FROM builds WHERE project_id = $1 ORDER BY number");
/// Workspace.
pub(crate) const OF_WORKSPACE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM builds WHERE project_id IN (SELECT id FROM projects WHERE workspace_id = $1 AND deleted_at IS NULL)",
    " ORDER BY project_id, number"
);
/// Node.
pub(crate) const UNENDED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM builds WHERE node = $1 AND state IN ('waiting', 'running') ORDER BY started_at, project_id, number"
);
/// Project, number.
pub(crate) const REMOVE: &str = "DELETE FROM builds WHERE project_id = $1 AND number = $2 \
    AND EXISTS (SELECT 1 FROM projects p WHERE p.id = builds.project_id AND p.deleted_at IS NOT NULL)";
