//! What an environment runs with, as a turn needs it.

use stead_domain::attachment::Pin;
use stead_domain::build::Build;
use stead_domain::network::NetworkPolicy;
use stead_domain::ports::StartSpec;
use stead_domain::project::Project;
use stead_domain::{Code, Error, Result};

use crate::builds::layout_failed;
use crate::commit::store_failed;
use crate::engine::Engine;

impl Engine {
    /// The mount set and policy for a turn that reads `reads`. The deployment's network bounds the turn's whenever it is carried out,
    /// since it may be narrower by then than when the turn was admitted.
    pub(crate) fn start_spec(&self, reads: Option<(&Project, &Build)>, network: &NetworkPolicy) -> Result<StartSpec> {
        let mounts = match reads {
            None => Vec::new(),
            Some((project, build)) => {
                let version = build.version.as_ref().ok_or_else(|| build.unreadable())?;
                let (workspace, mount) = (project.workspace_id, project.slug.mount());
                self.layout
                    .mounts(workspace, project.id, build.number, &mount, &version.layers)
                    .map_err(layout_failed)?
            }
        };
        Ok(StartSpec { mounts, network: network.within(&self.settings.session_network) })
    }

    /// The project and the build that a pin names, deleted or not: a pinned version outlives its project for the turn that
    /// holds it.
    pub(crate) async fn pinned(&self, workspace: stead_domain::WorkspaceId, pin: Pin) -> Result<(Project, Build)> {
        let gone = || Error::new(Code::ProjectNotFound, "there is no such project");
        let project = self.store.project_fetch(workspace, pin.project_id).await.map_err(store_failed)?;
        let build = self.store.build_fetch(pin.project_id, pin.version).await.map_err(store_failed)?;
        Ok((project.ok_or_else(gone)?, build.ok_or_else(gone)?))
    }

    /// Refuses a version that cannot be read here (UHP Environments §5; design §4 on bases).
    pub(crate) async fn check_readable(&self, build: &Build) -> Result<()> {
        let Some(version) = build.standing() else {
            return Err(build.unreadable().at("turn.project"));
        };
        let toolchain = self.tools.toolchain().await?;
        if toolchain.bases().iter().any(|base| base.id == version.base.id) {
            return Ok(());
        }
        let here = toolchain.base();
        let message = format!(
            "version {} was built on `{}` and this server runs `{}`; build it again",
            build.number, version.base.description, here.description
        );
        Err(Error::new(Code::ProjectNotReady, message).at("turn.project"))
    }
}
