//! Recorded outside effects.

use stead_domain::operation::Operation;

use crate::table::table;

table!(columns, Operation in "operations" {
    "id" = "$1";
    "workspace_id" = "$2", "environment_id" = "$3", "node" = "$4", "kind" = "$5", "state" = "$6", "spec" = "$7",
    "generation" = "$8", "lease_holder" = "$9", "lease_until" = "$10", "attempts" = "$11", "next_attempt_at" = "$12",
    "error" = "$13", "created_at" = "$14", "finished_at" = "$15";
    row_version = "$16"
} id, workspace_id, environment_id, node, kind, state, spec, generation, lease, attempts, next_attempt_at, error,
    created_at, finished_at, row_version);

/// Id.
pub(crate) const FETCH: &str = concat!("SELECT ", columns!(), " FROM operations WHERE id = $1");
/// Node.
pub(crate) const UNENDED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM operations WHERE node = $1 AND state IN ('recorded', 'dispatched', 'uncertain') ORDER BY id"
);
