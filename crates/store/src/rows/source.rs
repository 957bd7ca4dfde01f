//! The sources of projects. An entry has no identity beside its path, and an edit concerns thousands: these statements take
//! many rows at a time.

use std::collections::BTreeMap;

use stead_domain::source::SourceEntry;
use stead_domain::{ProjectId, SourcePath};

use crate::columns::{Columns, Reader, RowError};
use crate::driver::Value;

macro_rules! columns {
    () => {
        "path, kind, executable, size, blob, modified_at"
    };
}

/// How many values an entry takes when it is written: the project's and its own.
pub(crate) const WIDTH: usize = 7;
/// Followed by tuples of values.
pub(crate) const WRITE_MANY: &str = concat!("INSERT INTO source_entries (project_id, ", columns!(), ") VALUES ");
/// Follows the tuples.
pub(crate) const REPLACING: &str = concat!(
    " ON CONFLICT (project_id, path) DO UPDATE SET kind = excluded.kind, executable = excluded.executable,",
    " size = excluded.size, blob = excluded.blob, modified_at = excluded.modified_at"
);
/// Project.
pub(crate) const CLEAR: &str = "DELETE FROM source_entries WHERE project_id = $1";
/// Project, how many.
pub(crate) const REMOVE_SOME: &str = "DELETE FROM source_entries WHERE project_id = $1 AND path IN \
    (SELECT path FROM source_entries WHERE project_id = $1 ORDER BY path LIMIT $2)";
/// Project; followed by the paths.
pub(crate) const REMOVE_AMONG: &str = "DELETE FROM source_entries WHERE project_id = $1 AND path IN ";
/// Project; followed by the paths.
pub(crate) const AMONG: &str =
    concat!("SELECT ", columns!(), " FROM source_entries WHERE project_id = $1 AND path IN ");
/// Project, path. What lies beneath begins with a slash behind the path, and `0` is the byte after the slash.
pub(crate) const SUBTREE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM source_entries WHERE project_id = $1 AND (path = $2 OR (path > $2 || '/' AND path < $2 || '0')) ORDER BY path"
);
/// Project.
pub(crate) const BLOBS: &str = "SELECT DISTINCT blob FROM source_entries WHERE project_id = $1 AND blob IS NOT NULL";
/// Project.
pub(crate) const LIST: &str =
    concat!("SELECT ", columns!(), " FROM source_entries WHERE project_id = $1 ORDER BY path");
/// Project, path, limit. The primary key gives the order.
pub(crate) const PAGE: &str =
    concat!("SELECT ", columns!(), " FROM source_entries WHERE project_id = $1 AND path > $2 ORDER BY path LIMIT $3");
/// Project, path, limit, the first path that is too far.
pub(crate) const PAGE_BENEATH: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM source_entries WHERE project_id = $1 AND path > $2 AND path < $4 ORDER BY path LIMIT $3"
);

/// The entries to write, each path once (the last word holds) and in the order of the table.
pub(crate) fn written(entries: &[SourceEntry]) -> Vec<&SourceEntry> {
    let by_path: BTreeMap<&SourcePath, &SourceEntry> = entries.iter().map(|entry| (&entry.path, entry)).collect();
    by_path.into_values().collect()
}

/// Appends the values of one tuple of [`WRITE_MANY`].
pub(crate) fn write(project: ProjectId, entry: &SourceEntry, values: &mut Vec<Value>) -> Result<(), RowError> {
    project.write(values)?;
    entry.path.write(values)?;
    entry.kind.write(values)?;
    entry.modified_at.write(values)
}

/// A row of any of the questions.
pub(crate) fn read(reader: &mut Reader<'_>) -> Result<SourceEntry, RowError> {
    Ok(SourceEntry { path: reader.take()?, kind: Columns::read(reader)?, modified_at: reader.take()? })
}
