//! Projects.

use stead_domain::project::Project;

use super::build::build_columns;
use crate::table::table;

table!(columns, Project in "projects" {
    "id" = "$1";
    "workspace_id" = "$2", "name" = "$3", "slug" = "$4", "description" = "$5", "entry" = "$6", "active" = "$7",
    "latest" = "$8", "source_files" = "$9", "source_bytes" = "$10", "source_revision" = "$11", "created_at" = "$12",
    "updated_at" = "$13", "deleted_at" = "$14", "declared" = "$15",
    "build_network" = "$16";
    row_version = "$17"
} id, workspace_id, name, slug, description, entry, active, latest, source, source_revision, created_at, updated_at,
    deleted_at, declared, build_network, row_version);

/// Workspace, id.
pub(crate) const FETCH: &str = concat!("SELECT ", columns!(), " FROM projects WHERE workspace_id = $1 AND id = $2");
/// Workspace, slug.
pub(crate) const BY_SLUG: &str =
    concat!("SELECT ", columns!(), " FROM projects WHERE workspace_id = $1 AND slug = $2 AND deleted_at IS NULL");
/// Node, how many. What remains of a project is looked after where its builds ran; one that was never built is anybody's.
pub(crate) const DELETED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM projects WHERE deleted_at IS NOT NULL AND (",
    "EXISTS (SELECT 1 FROM builds b WHERE b.project_id = projects.id AND b.node = $1)",
    " OR NOT EXISTS (SELECT 1 FROM builds b WHERE b.project_id = projects.id)) ORDER BY id LIMIT $2"
);
/// Project.
pub(crate) const REMOVE: &str = "DELETE FROM projects WHERE id = $1 AND deleted_at IS NOT NULL \
    AND NOT EXISTS (SELECT 1 FROM builds b WHERE b.project_id = projects.id) \
    AND NOT EXISTS (SELECT 1 FROM source_entries s WHERE s.project_id = projects.id)";
/// Workspace. A project's columns, then those of its latest build, which are null where there is none.
pub(crate) const LIST: &str = concat!(
    "SELECT p.*, b.* FROM (SELECT ",
    columns!(),
    " FROM projects WHERE workspace_id = $1 AND deleted_at IS NULL) p LEFT JOIN (SELECT ",
    build_columns!(),
    " FROM builds) b ON b.project_id = p.id AND b.number = p.latest ORDER BY p.id"
);
