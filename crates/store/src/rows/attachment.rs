//! Sessions' uses of environments.

use stead_domain::attachment::Attachment;

use crate::table::table;

table!(columns, Attachment in "attachments" {
    "id" = "$1";
    "workspace_id" = "$2", "session_id" = "$3", "environment_id" = "$4", "name" = "$5", "pins" = "$6", "created_at" = "$7";
    row_version = "$8"
} id, workspace_id, session_id, environment_id, name, pins, created_at, row_version);

/// Session.
pub(crate) const OF_SESSION: &str =
    concat!("SELECT ", columns!(), " FROM attachments WHERE session_id = $1 ORDER BY id");
/// Workspace. Sessions that read the same share a row.
pub(crate) const PINS: &str = concat!(
    "SELECT DISTINCT a.pins FROM sessions s JOIN attachments a ON a.session_id = s.id",
    " WHERE s.workspace_id = $1 AND s.deleted_at IS NULL AND a.pins <> '[]'"
);
