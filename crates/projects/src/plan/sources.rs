//! The source as a planner looks at it.

use std::collections::BTreeMap;

use stead_bundles::manifest::{MANIFEST_MAX_BYTES, TextError};
use stead_domain::BlobId;
use stead_domain::ports::BlobError;
use stead_domain::source::SourceEntry;

use super::PlanError;
use crate::snapshot;

/// Gives the bytes of a file of the source.
pub type ReadSource<'a> = dyn Fn(&SourceEntry) -> Result<Vec<u8>, BlobError> + 'a;

pub(super) struct Sources<'a> {
    by_path: BTreeMap<&'a str, &'a SourceEntry>,
    read: &'a ReadSource<'a>,
    digest: BlobId,
}

impl<'a> Sources<'a> {
    pub(super) fn new(entries: &'a [SourceEntry], read: &'a ReadSource<'a>) -> Self {
        let by_path = entries.iter().map(|entry| (entry.path.as_str(), entry)).collect();
        Self { by_path, read, digest: snapshot::digest(entries) }
    }

    /// The identity of the whole tree.
    pub(super) fn digest(&self) -> BlobId {
        self.digest
    }

    /// A regular file.
    pub(super) fn file(&self, path: &str) -> Option<&'a SourceEntry> {
        self.by_path.get(path).copied().filter(|entry| !entry.is_directory())
    }

    /// The regular files beneath a directory.
    pub(super) fn beneath(&self, directory: &str) -> impl Iterator<Item = &'a SourceEntry> {
        let prefix = format!("{directory}/");
        let from = prefix.clone();
        self.by_path
            .range::<str, _>((std::ops::Bound::Excluded(from.as_str()), std::ops::Bound::Unbounded))
            .map(|(_, entry)| *entry)
            .take_while(move |entry| entry.path.as_str().starts_with(&prefix))
            .filter(|entry| !entry.is_directory())
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The regular files of this name, in the root and beneath it.
    pub(super) fn named(&self, name: &str) -> impl Iterator<Item = &'a SourceEntry> {
        let is_named = move |entry: &&SourceEntry| entry.path.as_str().rsplit('/').next() == Some(name);
        self.by_path.values().copied().filter(|entry| !entry.is_directory()).filter(is_named)
    }

    /// A manifest's bytes; one that no parser would read is refused before it is loaded.
    pub(super) fn read(&self, entry: &SourceEntry) -> Result<Vec<u8>, PlanError> {
        if entry.size() > MANIFEST_MAX_BYTES as u64 {
            return Err(PlanError::manifest(&entry.path, TextError::TooLarge));
        }
        (self.read)(entry).map_err(|source| PlanError::Read { file: entry.path.to_string(), source })
    }
}
