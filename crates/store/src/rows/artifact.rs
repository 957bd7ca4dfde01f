//! Files that turns left.

use stead_domain::file::Artifact;

use crate::table::table;

table!(columns, Artifact in "artifacts" {
    "id" = "$1";
    "workspace_id" = "$2", "session_id" = "$3", "turn_id" = "$4", "path" = "$5", "bytes" = "$6", "blob" = "$7",
    "created_at" = "$8"
} id, workspace_id, session_id, turn_id, path, bytes, blob, created_at);

/// Workspace, id.
pub(crate) const FETCH: &str = concat!("SELECT ", columns!(), " FROM artifacts WHERE workspace_id = $1 AND id = $2");
/// Session.
pub(crate) const OF_SESSION: &str =
    concat!("SELECT ", columns!(), " FROM artifacts WHERE session_id = $1 ORDER BY created_at, id");
