//! Installer caches: those of deleted projects go, and where a workspace has a quota on caches, the stalest ones go until the
//! rest fits. A build never fails for its cache; at worst it fetches again.

use std::collections::HashMap;
use std::time::Duration;

use stead_domain::{ProjectId, Result, Timestamp, WorkspaceId};
use stead_projects::layout::remove_tree;

use super::CollectionReport;
use crate::builds::layout_failed;
use crate::commit::store_failed;
use crate::engine::Engine;

/// For how long a build that has just begun is waited for.
const WAIT: Duration = Duration::from_secs(1);

impl Engine {
    pub(super) async fn collect_caches(&self, workspace: WorkspaceId, report: &mut CollectionReport) -> Result<()> {
        let layout = self.layout.clone();
        let mut last_built: HashMap<ProjectId, Timestamp> = HashMap::new();
        for build in self.store.builds_of_workspace(workspace).await.map_err(store_failed)? {
            let last = last_built.entry(build.project_id).or_insert(build.started_at);
            *last = (*last).max(build.started_at);
        }
        let mut caches: Vec<(Option<Timestamp>, ProjectId, u64)> = self
            .blocking(move || {
                let projects = layout.caches(workspace).map_err(layout_failed)?;
                let measured = |id| (last_built.get(&id).copied(), id, layout.cache_bytes(workspace, id));
                Ok(projects.into_iter().map(measured).collect())
            })
            .await?;
        caches.sort_unstable();
        let mut left: u64 = caches.iter().map(|(_, _, bytes)| bytes).sum();
        let quota = self.settings.quotas.cache_bytes.unwrap_or(u64::MAX);
        for (built, project, bytes) in caches {
            // Only builds make caches, so one without a build is of a deleted project.
            if built.is_some() && left <= quota {
                continue;
            }
            // A build that is at work keeps its cache; the next run finds it.
            if self.builds.is_at_work(project) {
                continue;
            }
            let nobody_else = tokio::time::timeout(WAIT, self.collector.caches.enter(project));
            let Ok(_nobody_else) = nobody_else.await else { continue };
            let place = self.layout.cache(workspace, project);
            self.blocking(move || remove_tree(&place).map_err(layout_failed)).await?;
            left -= bytes;
            report.caches += 1;
            report.bytes += bytes;
        }
        Ok(())
    }

    /// What the installer caches of a workspace take on disk, in bytes.
    pub(crate) async fn cache_bytes(&self, workspace: WorkspaceId) -> Result<u64> {
        let layout = self.layout.clone();
        self.blocking(move || {
            let projects = layout.caches(workspace).map_err(layout_failed)?;
            Ok(projects.into_iter().map(|id| layout.cache_bytes(workspace, id)).sum())
        })
        .await
    }
}
