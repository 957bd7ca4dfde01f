//! What a deleted project leaves goes once no running turn reads it: its versions and what its builds worked in, the logs of its
//! builds, its source and its records, in this order, so that one that was cut off is found again by its record. Its layers stay
//! until they are collected, since a later project at the same place may have taken them again.

use std::time::Duration;

use stead_domain::changes::{Changes, Removal};
use stead_domain::ports::LogName;
use stead_domain::{ProjectId, Result, WorkspaceId};
use stead_projects::layout::remove_tree;

use super::layout_failed;
use crate::commit::store_failed;
use crate::engine::Engine;
use crate::turns::output::log_failed;

/// How often it is looked whether a turn still reads the project.
const LOOK: Duration = Duration::from_secs(1);

/// How many deleted projects are looked at in one go; the others come with the next.
const AT_ONCE: usize = 1000;

impl Engine {
    /// Removes a deleted project in a task of its own, when nobody reads it any more.
    pub(crate) fn purge_project(&self, workspace: WorkspaceId, project: ProjectId) {
        let engine = self.clone();
        self.supervisor.spawn("remove a deleted project", async move {
            let stopping = engine.supervisor.stopping();
            loop {
                match engine.is_read(project).await {
                    Ok(false) => break,
                    Ok(true) => {}
                    Err(error) => tracing::warn!(project.id = %project, error = %error, "looking for readers failed"),
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    // The next start goes on from here.
                    () = stopping.cancelled() => return,
                }
            }
            engine.remove_project(workspace, project).await;
        });
    }

    /// Removes what is left of a deleted project that nobody reads; what fails is tried again by the next collection.
    async fn remove_project(&self, workspace: WorkspaceId, project: ProjectId) {
        let _alone = self.collector.builds.enter(project).await;
        if let Err(error) = self.remove_remains(workspace, project).await {
            tracing::warn!(project.id = %project, error = %error, "removing a deleted project failed; it is tried again");
        }
    }

    async fn remove_remains(&self, workspace: WorkspaceId, project: ProjectId) -> Result<()> {
        let layout = &self.layout;
        let places = [layout.builds_of(workspace, project), layout.project(workspace, project)];
        self.blocking(move || places.iter().try_for_each(|p| remove_tree(p)).map_err(layout_failed)).await?;
        if !self.remove_all(Removal::Source(project)).await? {
            return Ok(());
        }
        let mut builds = self.store.builds_list(project).await.map_err(store_failed)?;
        // Where others ran, there lie their files.
        builds.retain(|build| build.node == self.node);
        let mut removals = Vec::with_capacity(builds.len());
        for build in builds {
            self.logs.remove(LogName::Build(project, build.number)).await.map_err(log_failed)?;
            removals.push(Removal::Build(project, build.number));
        }
        self.remove_each(&removals).await?;
        self.write_back(Changes::new().remove(Removal::Project(project))).await
    }

    /// Whether a turn that is not ended reads the deleted project.
    async fn is_read(&self, project: ProjectId) -> Result<bool> {
        // Whoever pins a version of it has either committed that before, or finds the project deleted.
        drop(self.collector.versions.write().await);
        let turns = self.store.turns_unended(&self.node).await.map_err(store_failed)?;
        Ok(turns.iter().any(|turn| turn.reads.is_some_and(|pin| pin.project_id == project)))
    }

    /// Goes on with the removal of projects that were deleted before the server started.
    pub(crate) async fn purge_deleted_projects(&self) -> Result<()> {
        for project in self.store.projects_deleted(&self.node, AT_ONCE).await.map_err(store_failed)? {
            self.purge_project(project.workspace_id, project.id);
        }
        Ok(())
    }

    /// Removes what is left of deleted projects that nobody reads, one after the other.
    pub(crate) async fn remove_deleted_projects(&self) -> Result<()> {
        for project in self.store.projects_deleted(&self.node, AT_ONCE).await.map_err(store_failed)? {
            if self.supervisor.stopping().is_cancelled() {
                return Ok(());
            }
            if !self.is_read(project.id).await? {
                self.remove_project(project.workspace_id, project.id).await;
            }
        }
        Ok(())
    }
}
