//! What a deleted project leaves on disk goes once no running turn reads it: its versions and what its builds worked in. Its
//! layers stay until they are collected, since a later project at the same place may have taken them again.

use std::time::Duration;

use stead_domain::{ProjectId, Result, WorkspaceId};
use stead_projects::layout::remove_tree;

use super::layout_failed;
use crate::commit::store_failed;
use crate::engine::Engine;

/// How often it is looked whether a turn still reads the project.
const LOOK: Duration = Duration::from_secs(1);

impl Engine {
    /// Removes the files of a deleted project in a task of its own.
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
            let _alone = engine.collector.builds.enter(project).await;
            // The project's own directory last: the next start finds by it what was cut off.
            let layout = &engine.layout;
            let places = [layout.builds_of(workspace, project), layout.project(workspace, project)];
            let removed =
                engine.blocking(move || places.iter().try_for_each(|p| remove_tree(p)).map_err(layout_failed));
            if let Err(error) = removed.await {
                tracing::warn!(project.id = %project, error = %error, "removing a deleted project failed");
            }
        });
    }

    /// Whether a turn that is not ended reads the project.
    async fn is_read(&self, project: ProjectId) -> Result<bool> {
        let turns = self.store.turns_unended(&self.node).await.map_err(store_failed)?;
        Ok(turns.iter().any(|turn| turn.reads.is_some_and(|pin| pin.project_id == project)))
    }

    /// Goes on with the removal of projects that were deleted before the server started.
    pub(crate) async fn purge_deleted_projects(&self) -> Result<()> {
        let layout = self.layout.clone();
        let found = self.blocking(move || layout.projects().map_err(layout_failed)).await?;
        for (workspace, project) in found {
            let row = self.store.project_fetch(workspace, project).await.map_err(store_failed)?;
            if row.is_some_and(|row| row.deleted_at.is_some()) {
                self.purge_project(workspace, project);
            }
        }
        Ok(())
    }
}
