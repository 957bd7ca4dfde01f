//! Tenants.

use stead_domain::workspace::Workspace;

use crate::table::table;

table!(columns, Workspace in "workspaces" {
    "id" = "$1"; "name" = "$2", "created_at" = "$3"
} id, name, created_at);

/// No values.
pub(crate) const FIRST: &str = concat!("SELECT ", columns!(), " FROM workspaces ORDER BY id LIMIT 1");
/// No values.
pub(crate) const LIST: &str = concat!("SELECT ", columns!(), " FROM workspaces ORDER BY id");
