//! Collection: what nothing names any more goes.
//!
//! A run looks at one workspace, in this order, since each part frees what the next one finds:
//!
//! 1. **Versions** that the operator's policy does not keep are given up: the record says so first, in one commit that an
//!    activation and another collection conflict with and that no admission of a task overlaps; the files go after it. So
//!    a crash leaves at most files whose record says that they are gone, and the next start removes them.
//! 2. **Layers** that no version names and no build holds: the row first, then the directory.
//! 3. **Uploads** that no task has named for long, where the operator says so: their rows, and what they held with the blobs.
//! 4. **Blobs** that no source, version, unended build, upload, artifact or input names, in two steps a grace apart.
//!
//! Besides, in all workspaces, rows of what has ended and can be asked for by nobody: see [`rows`].
//!
//! One run is at work at a time. Everything here may be cut off anywhere and done again.

mod blobs;
pub(crate) mod layers;
mod rows;
mod versions;

use std::time::Duration;

use stead_domain::key::Caller;
use stead_domain::{Result, WorkspaceId};
use stead_projects::layout::remove_tree;
use tokio::sync::{Mutex, RwLock};

use self::layers::LayerHolds;
use crate::builds::layout_failed;
use crate::commit::store_failed;
use crate::engine::Engine;
use crate::turnstile::Turnstile;

/// What the operator decided about collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectionSettings {
    /// How often it runs by itself.
    pub every: Duration,
    /// How long what nothing names stays. It must be longer than anything takes between storing bytes and naming them.
    pub grace: Duration,
    /// How many of its newest finished versions a project keeps; 0 for all.
    pub keep_versions: usize,
    /// How long an upload stays that no task has named; none for ever.
    pub uploads: Option<Duration>,
}

/// How long after the start it first runs by itself.
const FIRST: Duration = Duration::from_mins(5);

/// What a run removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollectionReport {
    /// Versions that were given up.
    pub versions: u64,
    /// Layers.
    pub layers: u64,
    /// Uploads that no task has named.
    pub uploads: u64,
    /// Blobs.
    pub blobs: u64,
    /// Blobs that nothing names and that stay for the rest of their grace.
    pub unnamed: u64,
    /// The size of all of it: of versions and layers as their records have it.
    pub bytes: u64,
}

/// What collection and those it must not disturb share.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    /// Whoever runs.
    running: Mutex<()>,
    /// Read by an admission from its look at a version to the commit that pins it; written by whoever gives versions up.
    pub(crate) versions: RwLock<()>,
    /// Layers that builds hold, and layers that go.
    pub(crate) layers: LayerHolds,
    /// Held by a build for what lies on disk of its project, and by whoever removes that.
    pub(crate) builds: Turnstile,
}

impl Engine {
    /// Collects in the caller's workspace, now.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn collection_run(&self, caller: &Caller) -> Result<CollectionReport> {
        self.write_down(caller.workspace_id).await?;
        self.collect_workspace(caller.workspace_id).await
    }

    /// Finishes what an earlier process left half removed, then collects every now and then until the server stops.
    pub(crate) async fn collect_for_ever(&self) {
        let stopping = self.supervisor.stopping();
        if let Err(error) = self.finish_removals().await {
            tracing::warn!(error = %error, cause = ?error.cause, "removing what an earlier process left failed");
        }
        let every = self.settings.collection.every;
        let mut wait = FIRST.min(every);
        loop {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stopping.cancelled() => return,
            }
            wait = every;
            if let Err(error) = self.collect_everything().await {
                tracing::error!(error = %error, cause = ?error.cause, "a collection failed");
            }
        }
    }

    async fn collect_everything(&self) -> Result<()> {
        self.collect_ended().await?;
        for workspace in self.store.workspaces_list().await.map_err(store_failed)? {
            if self.supervisor.stopping().is_cancelled() {
                return Ok(());
            }
            self.collect_workspace(workspace.id).await?;
        }
        Ok(())
    }

    async fn collect_workspace(&self, workspace: WorkspaceId) -> Result<CollectionReport> {
        let _alone = self.collector.running.lock().await;
        let mut report = CollectionReport::default();
        self.retire_versions(workspace, &mut report).await?;
        self.remove_versions(workspace).await?;
        self.collect_layers(workspace, Some(self.settings.collection.grace), &mut report).await?;
        self.collect_uploads(workspace, &mut report).await?;
        self.collect_blobs(workspace, &mut report).await?;
        let CollectionReport { versions, layers, uploads, blobs, unnamed, bytes } = report;
        tracing::info!(workspace.id = %workspace, versions, layers, uploads, blobs, unnamed, bytes, "collected");
        Ok(report)
    }

    /// Makes room among versions and layers at once: what no version names and no build holds goes whatever its age, since it is
    /// kept for nothing but a build that might want it again.
    pub(crate) async fn make_version_room(&self, workspace: WorkspaceId) -> Result<()> {
        let _alone = self.collector.running.lock().await;
        self.remove_versions(workspace).await?;
        self.collect_layers(workspace, Some(Duration::ZERO), &mut CollectionReport::default()).await
    }

    /// What the records say is gone goes from the disk.
    async fn finish_removals(&self) -> Result<()> {
        for workspace in self.store.workspaces_list().await.map_err(store_failed)? {
            let _alone = self.collector.running.lock().await;
            self.remove_versions(workspace.id).await?;
            self.collect_layers(workspace.id, None, &mut CollectionReport::default()).await?;
        }
        let caches = self.layout.kept_caches();
        self.blocking(move || remove_tree(&caches).map_err(layout_failed)).await
    }
}
