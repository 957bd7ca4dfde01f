//! Builds as callers see them: started, read, cancelled; versions activated.

use stead_domain::audit::AuditTarget;
use stead_domain::build::{Build, BuildEvent, BuildFailure};
use stead_domain::changes::Changes;
use stead_domain::key::Caller;
use stead_domain::{Code, Error, ProjectId, Result};
use stead_projects::snapshot;

use super::Cancelling;
use crate::commit::{blobs_failed, store_failed};
use crate::engine::Engine;
use crate::hub::Topic;
use crate::projects::ProjectView;
use crate::request::RequestRecord;

pub(crate) fn build_not_found() -> Error {
    Error::new(Code::BuildNotFound, "the project has no build of that number").at("version")
}

impl Engine {
    /// Starts a build of the source as it is now and returns at once (UHP Environments §4). What is written to the source
    /// after this is no part of it.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn build_start(&self, caller: &Caller, id: ProjectId, fresh: bool) -> Result<Build> {
        let _through = self.projects.enter(id).await;
        let build = self
            .decide(|| async {
                let project = self.live_project(caller, id).await?;
                let latest = self.build_of(&project, project.latest).await?;
                let entries = self.store.source_list(id).await.map_err(store_failed)?;
                // What is declared can be installed without a file.
                if project.declared.is_empty() && !entries.iter().any(|entry| !entry.is_directory()) {
                    let message = "the project has no files yet; write or import some before building";
                    return Err(Error::new(Code::ProjectInvalid, message));
                }
                self.require_version_room(caller.workspace_id, project.source.bytes).await?;
                // The row's version guards the source: an edit that comes between makes the commit a conflict.
                let snapshot = self.blobs.put(caller.workspace_id, snapshot::encode(&entries)).await;
                let snapshot = snapshot.map_err(blobs_failed)?;
                let network = self.build_network(&project);
                let (project, build) =
                    project.admit_build(latest.as_ref(), snapshot.id, fresh, network, &self.node, self.now())?;
                self.blobs.sync().await.map_err(blobs_failed)?;
                Ok((Changes::new().update(project).insert(build.clone()), build))
            })
            .await?;
        self.faults.point("build.admitted");
        self.work_on_build(caller.workspace_id, id, build.number);
        Ok(build)
    }

    /// One build.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn build_get(&self, caller: &Caller, id: ProjectId, number: u32) -> Result<Build> {
        let project = self.live_project(caller, id).await?;
        self.build_of(&project, number).await?.ok_or_else(build_not_found)
    }

    /// Ends a build that waits or runs, as failed with the reason `cancelled`. One that has ended stays as it is.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn build_cancel(&self, caller: &Caller, id: ProjectId, number: u32) -> Result<Build> {
        let build = self.build_get(caller, id, number).await?;
        if build.state.is_ended() {
            return Ok(build);
        }
        let cancelling = self.builds.cancel(id, number);
        self.faults.point("build.cancelling");
        let mut waiter = self.hub.listen(Topic::Project(id));
        if cancelling == Cancelling::TooLate {
            // Its end is a commit away.
            loop {
                let build = self.build_get(caller, id, number).await?;
                if build.state.is_ended() {
                    return Ok(build);
                }
                waiter.wait().await;
            }
        }
        if cancelling == Cancelling::Idle {
            self.decide(|| async {
                let build = self.build_get(caller, id, number).await?;
                if build.state.is_ended() {
                    return Ok((Changes::new(), ()));
                }
                let failed = build.transition(BuildEvent::Failed(BuildFailure::cancelled()), self.now())?;
                Ok((Changes::new().update(failed), ()))
            })
            .await?;
        }
        self.build_get(caller, id, number).await
    }

    /// Makes a finished build the one that new sessions read; nothing is rebuilt.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn version_activate(&self, caller: &Caller, id: ProjectId, number: u32) -> Result<ProjectView> {
        self.decide(|| async {
            let project = self.live_project(caller, id).await?;
            let build = self.build_of(&project, number).await?.ok_or_else(build_not_found)?;
            if project.active == Some(number) {
                return Ok((Changes::new(), ()));
            }
            RequestRecord::concerns(AuditTarget::new("version", format!("{id}/{number}")));
            Ok((Changes::new().update(project.activate(&build, self.now())?), ()))
        })
        .await?;
        self.faults.point("version.activated");
        self.project_get(caller, id).await
    }
}
