//! The audit log.

use stead_domain::audit::AuditEntry;

use crate::table::table;

table!(columns, AuditEntry in "audit_entries" {
    "id" = "$1";
    "at" = "$2", "workspace_id" = "$3", "key_id" = "$4", "request_id" = "$5", "action" = "$6", "targets" = "$7"
} id, at, workspace_id, key_id, request_id, action, targets);

/// Later than every id, for a list that begins at the newest.
pub(crate) const NEWEST: &str = "~";

/// An id that all are older than, how many.
pub(crate) const LIST: &str =
    concat!("SELECT ", columns!(), " FROM audit_entries WHERE id < $1 ORDER BY id DESC LIMIT $2");
/// An id that all are older than, how many, workspace.
pub(crate) const LIST_OF_WORKSPACE: &str =
    concat!("SELECT ", columns!(), " FROM audit_entries WHERE workspace_id = $3 AND id < $1 ORDER BY id DESC LIMIT $2");
/// An instant that all are older than, how many. They are as old as their ids say, so only the first few are looked at.
pub(crate) const REMOVE_BEFORE: &str = "DELETE FROM audit_entries WHERE at < $1 AND id IN \
    (SELECT id FROM audit_entries ORDER BY id LIMIT $2)";
