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
/// An instant before which all have ended, how many.
pub(crate) const REMOVE_ENDED: &str = "DELETE FROM operations WHERE id IN (SELECT o.id FROM operations o \
    WHERE o.state IN ('done', 'failed') AND o.finished_at < $1 AND NOT EXISTS (SELECT 1 FROM environments e \
    WHERE e.id = o.environment_id AND e.operation_id = o.id) ORDER BY o.id LIMIT $2)";
