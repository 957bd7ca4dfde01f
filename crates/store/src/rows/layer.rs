//! Frozen layers.

use stead_domain::build::Layer;

use crate::table::table;

table!(columns, Layer in "layers" {
    "id" = "$1";
    "workspace_id" = "$2", "project_id" = "$3", "layer_key" = "$4", "node" = "$5", "step" = "$6", "packages" = "$7",
    "size_files" = "$8", "size_bytes" = "$9", "created_at" = "$10"
} id, workspace_id, project_id, key, node, step, packages, size, created_at);

/// Workspace, node, key.
pub(crate) const BY_KEY: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM layers WHERE workspace_id = $1 AND node = $2 AND layer_key = $3 ORDER BY id DESC LIMIT 1"
);
/// Workspace, node.
pub(crate) const LIST: &str =
    concat!("SELECT ", columns!(), " FROM layers WHERE workspace_id = $1 AND node = $2 ORDER BY id");
/// Layer.
pub(crate) const REMOVE: &str = "DELETE FROM layers WHERE id = $1";
/// Followed by the ids.
pub(crate) const AMONG: &str = concat!("SELECT ", columns!(), " FROM layers WHERE id IN ");
