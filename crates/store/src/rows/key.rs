//! API keys.

use stead_domain::key::Key;

use crate::table::table;

table!(columns, Key in "api_keys" {
    "id" = "$1";
    "workspace_id" = "$2", "name" = "$3", "digest" = "$4", "verbs" = "$5", "created_at" = "$6", "revoked_at" = "$7";
    row_version = "$8"
} id, workspace_id, name, digest, verbs, created_at, revoked_at, row_version);

/// Digest.
pub(crate) const BY_DIGEST: &str = concat!("SELECT ", columns!(), " FROM api_keys WHERE digest = $1");
/// Workspace.
pub(crate) const LIST: &str = concat!("SELECT ", columns!(), " FROM api_keys WHERE workspace_id = $1 ORDER BY id");
