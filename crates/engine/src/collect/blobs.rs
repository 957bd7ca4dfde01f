//! Blobs: what sources, builds, uploads, artifacts and inputs name stays; the blob store takes the rest away in two steps.
//!
//! A version that stands has its files on disk and shares nothing with the blobs, so of a finished build the snapshot alone
//! is named, which the next build compares with. An unended build reads the blobs in its snapshot.

use std::collections::HashSet;

use stead_domain::changes::Removal;
use stead_domain::source::EntryKind;
use stead_domain::{BlobId, Error, Result, WorkspaceId};
use stead_projects::snapshot;

use super::CollectionReport;
use crate::commit::{blobs_failed, store_failed};
use crate::engine::Engine;

impl Engine {
    /// Removes uploads that no task has named for long. A task that names one in this moment keeps its contents: they were
    /// named until now, so they have their grace.
    pub(super) async fn collect_uploads(&self, workspace: WorkspaceId, report: &mut CollectionReport) -> Result<()> {
        let Some(age) = self.settings.collection.uploads else { return Ok(()) };
        let before = self.now().minus(age);
        let unused = self.store.uploads_unused(workspace, before).await.map_err(store_failed)?;
        report.uploads += unused.len() as u64;
        let removals: Vec<Removal> = unused.iter().map(|upload| Removal::Upload(upload.id)).collect();
        self.remove_each(&removals).await
    }

    pub(super) async fn collect_blobs(&self, workspace: WorkspaceId, report: &mut CollectionReport) -> Result<()> {
        let named = self.blobs_named(workspace).await?;
        let (blobs, grace) = (self.blobs.clone(), self.settings.collection.grace);
        self.faults.point("collect.blobs.named");
        let collected = self
            .blocking(move || blobs.collect_blocking(workspace, &|id| named.contains(&id), grace).map_err(blobs_failed))
            .await?;
        self.faults.point("collect.blobs.removed");
        report.blobs += collected.removed.blobs;
        report.unnamed += collected.marked;
        report.bytes += collected.removed.bytes;
        Ok(())
    }

    /// Everything in a workspace that names a blob. Sources are read before builds: a snapshot names what a source named
    /// when it was taken, so what moves from the one to the other meanwhile is seen in either.
    async fn blobs_named(&self, workspace: WorkspaceId) -> Result<HashSet<BlobId>> {
        let mut named = HashSet::new();
        for (project, _) in self.store.projects_list(workspace).await.map_err(store_failed)? {
            named.extend(self.store.source_blobs(project.id).await.map_err(store_failed)?);
        }
        named.extend(self.store.blobs_of_files(workspace).await.map_err(store_failed)?);
        for build in self.store.builds_of_workspace(workspace).await.map_err(store_failed)? {
            let is_unended = !build.state.is_ended();
            if is_unended || build.standing().is_some() {
                named.insert(build.snapshot);
            }
            if is_unended {
                let bytes = self.blobs.read(workspace, build.snapshot).await.map_err(blobs_failed)?;
                let entries = snapshot::decode(&bytes).map_err(Error::internal)?;
                named.extend(entries.iter().filter_map(|entry| match entry.kind {
                    EntryKind::Directory => None,
                    EntryKind::File { blob, .. } => Some(blob),
                }));
            }
        }
        Ok(named)
    }
}
