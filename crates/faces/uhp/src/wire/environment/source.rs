//! The source, edited by path (UHP Environments §3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stead_domain::source::{SourceEntry, TreeSize};

/// One entry of a source tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileEntry<'a> {
    path: &'a str,
    dir: bool,
    bytes: u64,
    mtime: i64,
    /// An extension: there and true when the file may be executed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stead_executable: bool,
}

impl<'a> From<&'a SourceEntry> for FileEntry<'a> {
    fn from(entry: &'a SourceEntry) -> Self {
        Self {
            path: entry.path.as_str(),
            dir: entry.is_directory(),
            bytes: entry.size(),
            mtime: entry.modified_at.as_seconds(),
            stead_executable: entry.is_executable(),
        }
    }
}

/// The answer of `GET …/files`: every file and every directory, or a page of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileTree<'a> {
    entries: Vec<FileEntry<'a>>,
    #[serde(flatten)]
    end: FileTreeEnd,
}

/// What follows the entries: the size of the whole source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileTreeEnd {
    count: u64,
    bytes: u64,
    /// An extension: the `after` of the next page, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    stead_after: Option<String>,
}

impl FileTreeEnd {
    /// The end of a listing of which nothing follows.
    pub fn whole(size: TreeSize) -> Self {
        Self { count: size.files, bytes: size.bytes, stead_after: None }
    }
}

impl<'a> FileTree<'a> {
    /// A page of a tree of that size.
    pub fn page(entries: &'a [SourceEntry], more: bool, size: TreeSize) -> Self {
        let stead_after = entries.last().filter(|_| more).map(|entry| entry.path.to_string());
        Self {
            entries: entries.iter().map(FileEntry::from).collect(),
            end: FileTreeEnd { stead_after, ..FileTreeEnd::whole(size) },
        }
    }
}

/// The answer of a PUT of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileWritten {
    /// Where.
    pub path: String,
    /// How much.
    pub bytes: u64,
}

/// The body of a PATCH of a file, an extension.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct FileChange {
    /// Whether the file may be executed.
    pub executable: bool,
}

/// The answer of a PATCH of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileChanged {
    /// Which.
    pub path: String,
    /// How much.
    pub bytes: u64,
    /// Whether it may be executed.
    pub stead_executable: bool,
}

/// The answer of a DELETE of a file or a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileDeleted {
    /// What.
    pub path: String,
    /// Always true.
    pub deleted: bool,
}

/// The body of `POST …/directories`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct DirectoryWrite {
    /// Where.
    pub path: String,
}

/// The answer of `POST …/directories`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DirectoryWritten {
    /// Where.
    pub path: String,
    /// Always true.
    pub dir: bool,
}
