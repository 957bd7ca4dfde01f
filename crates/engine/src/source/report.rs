//! What an import tells whoever asked for it, beside what landed.

use std::collections::BTreeMap;

use stead_bundles::ignored::{ignored_manifests, may_be_manifest, names_others};
use stead_domain::source::{EntryKind, SourceEntry, TreeSize};
use stead_domain::{BlobId, WorkspaceId};

use crate::engine::Engine;

/// The most that one list of a report names.
pub(super) const LISTED: usize = 200;
/// The most that is read of files that may name manifests, in bytes each.
const READ: u64 = 1 << 20;

/// A member of an archive or repository that did not land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedMember {
    /// Its name, shortened and made printable.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// A submodule, which was not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submodule {
    /// Where it would lie.
    pub path: String,
    /// Where it comes from, if the repository says so.
    pub url: Option<String>,
}

/// What was taken of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The commit's id.
    pub commit: String,
    /// The full name that was resolved; none for a commit asked for by its id.
    pub reference: Option<String>,
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// Files that landed.
    pub written: u64,
    /// How many members did not land.
    pub skipped: u64,
    /// The first of them, with the reasons.
    pub skipped_members: Vec<SkippedMember>,
    /// The source's size afterwards.
    pub size: TreeSize,
    /// What was taken, of a repository.
    pub taken: Option<Taken>,
    /// The first of the submodules.
    pub submodules: Vec<Submodule>,
    /// The first of the files that are pointers to a large-file store: their contents are not here.
    pub lfs_pointers: Vec<String>,
    /// The first of the manifests that a build will not use, with the reasons.
    pub ignored_manifests: Vec<SkippedMember>,
}

/// The files among a tree's entries that decide which manifests are used.
pub(super) fn manifests<'a>(entries: impl Iterator<Item = &'a SourceEntry>) -> BTreeMap<String, (BlobId, u64)> {
    let found = entries.filter_map(|entry| match entry.kind {
        EntryKind::File { blob, size, .. } if may_be_manifest(entry.path.as_str()) => {
            Some((entry.path.as_str().to_owned(), (blob, size)))
        }
        _ => None,
    });
    found.collect()
}

impl Engine {
    /// The manifests that a build of the tree will not use. A file that cannot be read says nothing.
    pub(super) async fn ignored_manifests(
        &self,
        workspace: WorkspaceId,
        found: BTreeMap<String, (BlobId, u64)>,
    ) -> Vec<SkippedMember> {
        let mut texts = String::new();
        for (path, (blob, size)) in &found {
            if names_others(path) && *size <= READ {
                let bytes = self.blobs.read(workspace, *blob).await.unwrap_or_default();
                texts.push_str(&String::from_utf8_lossy(&bytes));
                texts.push('\n');
            }
        }
        let paths: Vec<&str> = found.keys().map(String::as_str).collect();
        let ignored = ignored_manifests(&paths, &texts).into_iter().take(LISTED);
        let ignored =
            ignored.map(|found| SkippedMember { name: found.path.to_owned(), reason: found.reason.to_owned() });
        ignored.collect()
    }
}
