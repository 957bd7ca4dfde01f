//! The source, edited by path (UHP Environments §3).

use serde::{Deserialize, Serialize};
use stead_domain::source::{SourceEntry, TreeSize};

/// One entry of a source tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileEntry {
    path: String,
    dir: bool,
    bytes: u64,
    mtime: i64,
}

/// The answer of `GET …/files`: every file and every directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileTree {
    entries: Vec<FileEntry>,
    count: u64,
    bytes: u64,
}

impl FileTree {
    /// A tree and its size.
    pub fn of(entries: &[SourceEntry], size: TreeSize) -> Self {
        let entry = |entry: &SourceEntry| FileEntry {
            path: entry.path.to_string(),
            dir: entry.is_directory(),
            bytes: entry.size(),
            mtime: entry.modified_at.as_seconds(),
        };
        Self { entries: entries.iter().map(entry).collect(), count: size.files, bytes: size.bytes }
    }
}

/// The answer of a PUT of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileWritten {
    /// Where.
    pub path: String,
    /// How much.
    pub bytes: u64,
}

/// The answer of a DELETE of a file or a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileDeleted {
    /// What.
    pub path: String,
    /// Always true.
    pub deleted: bool,
}

/// The body of `POST …/directories`.
#[derive(Debug, Clone, Deserialize)]
pub struct DirectoryWrite {
    /// Where.
    pub path: String,
}

/// The answer of `POST …/directories`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DirectoryWritten {
    /// Where.
    pub path: String,
    /// Always true.
    pub dir: bool,
}
