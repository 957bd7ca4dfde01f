//! Versions: given up by the operator's policy or by a caller's word, then removed from disk.

use std::collections::{BTreeMap, BTreeSet};

use stead_domain::attachment::Pin;
use stead_domain::build::Build;
use stead_domain::changes::Changes;
use stead_domain::key::Caller;
use stead_domain::{Code, Error, ProjectId, Result, WorkspaceId, retention};
use stead_projects::layout::remove_tree;

use super::CollectionReport;
use crate::builds::{build_not_found, layout_failed};
use crate::commit::store_failed;
use crate::engine::Engine;

impl Engine {
    /// Gives up a finished version. The active one and one that a task reads are refused; a session that is pinned to it is
    /// told at its next task. One that was given up before stays so.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn version_remove(&self, caller: &Caller, id: ProjectId, number: u32) -> Result<Build> {
        let alone = self.collector.versions.write().await;
        self.decide(|| async {
            let project = self.live_project(caller, id).await?;
            let build = self.build_of(&project, number).await?.ok_or_else(build_not_found)?;
            if build.is_removed() {
                return Ok((Changes::new(), ()));
            }
            if project.active == Some(number) {
                let message = format!("version {number} is active; activate another one first");
                return Err(Error::new(Code::VersionInUse, message).at("version"));
            }
            if self.versions_read().await?.contains(&Pin { project_id: id, version: number }) {
                let message = format!("a task reads version {number}; it can be removed when that has ended");
                return Err(Error::new(Code::VersionInUse, message).at("version"));
            }
            let build = build.remove_version(self.now()).map_err(|error| error.at("version"))?;
            // The project's row makes an activation that comes between a conflict.
            Ok((Changes::new().update(project).update(build), ()))
        })
        .await?;
        drop(alone);
        self.faults.point("collect.version.given_up");
        // Two that remove the same tree would stumble over each other.
        let _alone = self.collector.running.lock().await;
        self.remove_versions_of(caller.workspace_id, id).await?;
        self.build_get(caller, id, number).await
    }

    /// Gives up what the operator's policy does not keep.
    pub(super) async fn retire_versions(&self, workspace: WorkspaceId, report: &mut CollectionReport) -> Result<()> {
        let keep = self.settings.collection.keep_versions;
        if keep == 0 {
            return Ok(());
        }
        let mut standing: BTreeMap<ProjectId, usize> = BTreeMap::new();
        for build in self.store.builds_of_workspace(workspace).await.map_err(store_failed)? {
            if build.standing().is_some() {
                *standing.entry(build.project_id).or_default() += 1;
            }
        }
        for (project, _) in standing.into_iter().filter(|(_, count)| *count > keep) {
            let retired = self.retire_versions_of(workspace, project, keep).await?;
            report.versions += retired.len() as u64;
            report.bytes +=
                retired.iter().filter_map(|build| build.version.as_ref()).map(|v| v.source.bytes).sum::<u64>();
            self.faults.point("collect.version.given_up");
        }
        Ok(())
    }

    async fn retire_versions_of(&self, workspace: WorkspaceId, id: ProjectId, keep: usize) -> Result<Vec<Build>> {
        // Whoever pins a version has either committed that before, or looks at the versions after.
        let _alone = self.collector.versions.write().await;
        self.decide(|| async {
            let project = self.store.project_fetch(workspace, id).await.map_err(store_failed)?;
            let Some(project) = project.filter(|project| project.deleted_at.is_none()) else {
                return Ok((Changes::new(), Vec::new()));
            };
            let mut held = self.versions_read().await?;
            held.extend(self.store.pins_held(workspace).await.map_err(store_failed)?);
            let held: BTreeSet<u32> =
                held.into_iter().filter(|pin| pin.project_id == id).map(|pin| pin.version).collect();
            let builds = self.store.builds_list(id).await.map_err(store_failed)?;
            let numbers = retention::expendable(&builds, project.active, &held, keep);
            let at = self.now();
            let retired = builds.into_iter().filter(|build| numbers.contains(&build.number));
            let retired = retired.map(|build| build.remove_version(at)).collect::<Result<Vec<Build>>>()?;
            if retired.is_empty() {
                return Ok((Changes::new(), retired));
            }
            // The project's row makes an activation that comes between a conflict.
            Ok((retired.iter().cloned().fold(Changes::new().update(project), Changes::update), retired))
        })
        .await
    }

    /// The versions that tasks read which are not ended.
    pub(super) async fn versions_read(&self) -> Result<Vec<Pin>> {
        let turns = self.store.turns_unended(&self.node).await.map_err(store_failed)?;
        Ok(turns.into_iter().filter_map(|turn| turn.reads).collect())
    }

    /// Removes the directories of versions that are given up or never came to be, in a whole workspace.
    pub(super) async fn remove_versions(&self, workspace: WorkspaceId) -> Result<()> {
        let layout = self.layout.clone();
        let found = self.blocking(move || layout.projects().map_err(layout_failed)).await?;
        for (_, project) in found.into_iter().filter(|(other, _)| *other == workspace) {
            let row = self.store.project_fetch(workspace, project).await.map_err(store_failed)?;
            // A deleted project goes as a whole, when no task reads it any more.
            if row.is_some_and(|row| row.deleted_at.is_none()) {
                self.remove_versions_of(workspace, project).await?;
            }
        }
        Ok(())
    }

    async fn remove_versions_of(&self, workspace: WorkspaceId, project: ProjectId) -> Result<()> {
        let layout = self.layout.clone();
        let found = self.blocking(move || layout.versions(workspace, project).map_err(layout_failed)).await?;
        let mut places = Vec::new();
        for number in found {
            // A build has its row before it has a directory. Failed ones remove their own; a crash may have been faster.
            let build = self.store.build_fetch(project, number).await.map_err(store_failed)?;
            if build.is_none_or(|build| build.state.is_ended() && build.standing().is_none()) {
                places.push(self.layout.version(workspace, project, number));
            }
        }
        self.blocking(move || places.iter().try_for_each(|place| remove_tree(place)).map_err(layout_failed)).await
    }
}
