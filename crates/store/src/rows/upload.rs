//! Uploaded files.

use stead_domain::file::Upload;

use crate::table::table;

table!(columns, Upload in "uploads" {
    "id" = "$1";
    "workspace_id" = "$2", "filename" = "$3", "purpose" = "$4", "media_type" = "$5", "bytes" = "$6", "blob" = "$7",
    "created_at" = "$8"
} id, workspace_id, filename, purpose, media_type, bytes, blob, created_at);

/// Workspace, id.
pub(crate) const FETCH: &str = concat!("SELECT ", columns!(), " FROM uploads WHERE workspace_id = $1 AND id = $2");
/// Workspace, an instant that all are older than.
pub(crate) const BEFORE: &str =
    concat!("SELECT ", columns!(), " FROM uploads WHERE workspace_id = $1 AND created_at < $2 ORDER BY id");
/// Upload.
pub(crate) const REMOVE: &str = "DELETE FROM uploads WHERE id = $1";
/// Workspace. The blobs of uploads and of what turns left.
pub(crate) const BLOBS: &str =
    "SELECT blob FROM uploads WHERE workspace_id = $1 UNION SELECT blob FROM artifacts WHERE workspace_id = $1";
