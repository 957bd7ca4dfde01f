//! Quotas: how much a workspace may keep. What would pass one is refused whole; nothing of it is kept.
//!
//! Nothing is reserved: requests that come at the same time may each find room. Together they pass a quota by at most what
//! each may bring: a file, the unchecked part of an import ([`IMPORT_CHECK`]), a version, or a project each.

use std::sync::Arc;

use serde_json::json;
use stead_domain::key::Caller;
use stead_domain::ports::{BlobError, Blobs};
use stead_domain::source::TreeSize;
use stead_domain::{BlobId, Code, Error, Result, WorkspaceId};

use crate::commit::{blobs_failed, store_failed};
use crate::engine::Engine;

/// How much one workspace may keep; none where nothing is bounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quotas {
    /// The sum of its blobs' lengths: sources, uploads, artifacts and snapshots, identical bytes once.
    pub blob_bytes: Option<u64>,
    /// Its versions and layers, in bytes: the source of each version that stands, and every layer once.
    pub version_bytes: Option<u64>,
    /// Its projects.
    pub projects: Option<u64>,
    /// The files of one source.
    pub source_files: Option<u64>,
}

/// What a workspace keeps, beside its quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// How many blobs it has stored.
    pub blobs: u64,
    /// The sum of their lengths.
    pub blob_bytes: u64,
    /// Its versions and layers, in bytes.
    pub version_bytes: u64,
    /// Its projects.
    pub projects: u64,
    /// The files of its largest source.
    pub source_files: u64,
    /// What it may keep.
    pub quotas: Quotas,
}

/// After how many bytes an import looks again whether there is room.
const IMPORT_CHECK: u64 = 16 << 20;

/// The refusal of what would pass a quota in bytes.
fn bytes_exhausted(quota: &str, max: u64, used: u64) -> Error {
    // What was deleted counts until a collection has removed it, which a caller that has just deleted something wonders about.
    let until =
        if quota == "blobs" { "; what nothing names any more goes once `collection.grace` has passed" } else { "" };
    Error::new(Code::QuotaExhausted, format!("the workspace may keep {max} bytes of {quota} and keeps {used}{until}"))
        .detail(json!({ "quota": quota, "max_bytes": max, "used_bytes": used }))
}

/// The refusal of what would pass a quota on a number.
fn number_exhausted(quota: &str, max: u64, used: u64, message: String) -> Error {
    Error::new(Code::QuotaExhausted, message).detail(json!({ "quota": quota, "max": max, "used": used }))
}

/// Refuses `more` beside what is used.
fn check_bytes(quota: &str, max: Option<u64>, used: u64, more: u64) -> Result<()> {
    match max {
        Some(max) if used.saturating_add(more) > max => Err(bytes_exhausted(quota, max, used)),
        _ => Ok(()),
    }
}

/// Watches the room for blobs while an import stores one after the other.
pub(crate) struct BlobRoom {
    blobs: Arc<dyn Blobs>,
    workspace: WorkspaceId,
    max: Option<u64>,
    unchecked: u64,
    expected: u64,
}

impl BlobRoom {
    /// Whether there is a bound to look at.
    pub(crate) fn is_bounded(&self) -> bool {
        self.max.is_some()
    }

    /// Refuses a blob that is still to be stored, when it does not fit beside those that were expected before; blocking.
    pub(crate) fn expect(&mut self, id: BlobId, bytes: u64) -> Result<()> {
        match self.blobs.open_blocking(self.workspace, id) {
            Ok(_) => return Ok(()),
            Err(BlobError::Missing(_) | BlobError::Damaged(_)) => self.expected += bytes,
            Err(error) => return Err(blobs_failed(error)),
        }
        let used = self.blobs.usage_blocking(self.workspace).map_err(blobs_failed)?;
        check_bytes("blobs", self.max, used.bytes, self.expected)
    }

    /// Notes bytes that were stored; blocking. Bytes that were there before take no room.
    pub(crate) fn note(&mut self, bytes: u64) -> Result<()> {
        self.unchecked += bytes;
        if self.max.is_none() || self.unchecked < IMPORT_CHECK {
            return Ok(());
        }
        self.check()
    }

    /// Looks whether what was stored fits; blocking.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.unchecked = 0;
        if self.max.is_none() {
            return Ok(());
        }
        let used = self.blobs.usage_blocking(self.workspace).map_err(blobs_failed)?;
        check_bytes("blobs", self.max, used.bytes, 0)
    }
}

impl Engine {
    /// What the caller's workspace keeps.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn usage(&self, caller: &Caller) -> Result<Usage> {
        let workspace = caller.workspace_id;
        let blobs = self.blobs.usage(workspace).await.map_err(blobs_failed)?;
        let projects = self.store.projects_list(workspace).await.map_err(store_failed)?;
        Ok(Usage {
            blobs: blobs.blobs,
            blob_bytes: blobs.bytes,
            version_bytes: self.version_bytes(workspace).await?,
            projects: projects.len() as u64,
            source_files: projects.iter().map(|(project, _)| project.source.files).max().unwrap_or(0),
            quotas: self.settings.quotas,
        })
    }

    async fn version_bytes(&self, workspace: WorkspaceId) -> Result<u64> {
        let layers = self.store.layers_list(workspace, &self.node).await.map_err(store_failed)?;
        let builds = self.store.builds_of_workspace(workspace).await.map_err(store_failed)?;
        let sources = builds.iter().filter_map(|build| build.standing()).map(|version| version.source.bytes);
        Ok(layers.iter().map(|layer| layer.size.bytes).chain(sources).sum())
    }

    /// Refuses blobs of that many bytes when they do not fit.
    pub(crate) async fn require_blob_room(&self, workspace: WorkspaceId, more: u64) -> Result<()> {
        let Some(max) = self.settings.quotas.blob_bytes else { return Ok(()) };
        let used = self.blobs.usage(workspace).await.map_err(blobs_failed)?;
        check_bytes("blobs", Some(max), used.bytes, more)
    }

    /// The room for the blobs of an import.
    pub(crate) fn blob_room(&self, workspace: WorkspaceId) -> BlobRoom {
        let max = self.settings.quotas.blob_bytes;
        BlobRoom { blobs: self.blobs.clone(), workspace, max, unchecked: 0, expected: 0 }
    }

    /// Refuses versions and layers of that many bytes when they do not fit.
    pub(crate) async fn require_version_room(&self, workspace: WorkspaceId, more: u64) -> Result<()> {
        let Some(max) = self.settings.quotas.version_bytes else { return Ok(()) };
        if self.version_bytes(workspace).await?.saturating_add(more) > max {
            self.make_version_room(workspace).await?;
        }
        check_bytes("versions", Some(max), self.version_bytes(workspace).await?, more)
    }

    /// Refuses another project when there are as many as there may be.
    pub(crate) async fn require_project_room(&self, workspace: WorkspaceId) -> Result<()> {
        let Some(max) = self.settings.quotas.projects else { return Ok(()) };
        let used = self.store.projects_list(workspace).await.map_err(store_failed)?.len() as u64;
        if used < max {
            return Ok(());
        }
        let message = format!("the workspace may have {max} projects and has {used}");
        Err(number_exhausted("projects", max, used, message))
    }

    /// Refuses a source that grows beyond the files that it may have.
    pub(crate) fn require_file_room(&self, before: TreeSize, after: TreeSize) -> Result<()> {
        match self.settings.quotas.source_files {
            Some(max) if after.files > max && after.files > before.files => {
                let message = format!("a project may have {max} files and would have {}", after.files);
                Err(number_exhausted("source_files", max, before.files, message))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_what_fits_to_the_byte() {
        assert!(check_bytes("blobs", Some(10), 7, 3).is_ok());
        assert!(check_bytes("blobs", None, u64::MAX, u64::MAX).is_ok());
        let error = check_bytes("blobs", Some(10), 7, 4).unwrap_err();
        assert_eq!(error.code, Code::QuotaExhausted);
        assert_eq!(error.detail, Some(json!({ "quota": "blobs", "max_bytes": 10, "used_bytes": 7 })));
        assert!(check_bytes("blobs", Some(10), 7, u64::MAX).is_err(), "no sum wraps around");
    }
}
