//! Environments.

use stead_domain::environment::Environment;

use crate::table::table;

table!(columns, Environment in "environments" {
    "id" = "$1";
    "workspace_id" = "$2", "provider" = "$3", "node" = "$4", "state" = "$5", "operation_id" = "$6", "network" = "$7",
    "handle" = "$8", "running_with" = "$9", "failure" = "$10", "idle_since" = "$11", "created_at" = "$12",
    "updated_at" = "$13";
    row_version = "$14"
} id, workspace_id, provider, node, state, operation_id, network, handle, running_with, failure, idle_since, created_at,
    updated_at, row_version);

/// Id.
pub(crate) const FETCH: &str = concat!("SELECT ", columns!(), " FROM environments WHERE id = $1");
/// Node.
pub(crate) const ON: &str =
    concat!("SELECT ", columns!(), " FROM environments WHERE node = $1 AND state <> 'deleted' ORDER BY id");
