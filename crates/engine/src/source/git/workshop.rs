//! The sandbox of one import and the directory that it works in. Both are gone soon after the value is, however that comes
//! about: an import that was done, refused, or given up with its request.

use std::path::PathBuf;

use stead_domain::ports::{BuildNetwork, BuildSandbox, BuildSandboxSpec, Endpoint, SandboxLimits};
use stead_domain::{Code, Error, ProjectId, Result, WorkspaceId};
use stead_projects::layout::remove_tree;

use super::places::Place;
use crate::builds::layout_failed;
use crate::engine::Engine;
use crate::operations::provider_failed;

/// Where the directory lies inside.
pub(super) const INSIDE: &str = "/import";

pub(super) struct Workshop {
    engine: Engine,
    /// There until the end.
    open: Option<Open>,
}

struct Open {
    sandbox: Box<dyn BuildSandbox>,
    directory: PathBuf,
    /// The place among the imports that run at once, held until nothing is left of this one.
    _place: Place,
}

impl Workshop {
    pub(super) fn sandbox(&self) -> Result<&dyn BuildSandbox> {
        let open = self.open.as_ref();
        open.map(|open| open.sandbox.as_ref()).ok_or_else(|| Error::new(Code::Internal, "the sandbox is closed"))
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let engine = self.engine.clone();
        self.engine.supervisor.spawn("end an import", async move {
            if let Err(error) = open.sandbox.close().await {
                // The directory is still the sandbox's; the next start ends both.
                tracing::error!(%error, "the sandbox of an import could not be closed");
                return;
            }
            engine.remove_scratch(open.directory).await;
        });
    }
}

impl Engine {
    /// Makes the directory and the sandbox. A caller that stops waiting leaves nothing behind.
    pub(super) async fn open_workshop(
        &self,
        workspace: WorkspaceId,
        project: ProjectId,
        endpoint: Endpoint,
        place: Place,
    ) -> Result<Workshop> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let engine = self.clone();
        self.supervisor.spawn("begin an import", async move {
            // A workshop that nobody waits for any more ends here.
            let _ = sender.send(engine.make_workshop(workspace, project, endpoint, place).await);
        });
        receiver.await.map_err(Error::internal)?
    }

    async fn make_workshop(
        &self,
        workspace: WorkspaceId,
        project: ProjectId,
        endpoint: Endpoint,
        place: Place,
    ) -> Result<Workshop> {
        let directory = self.layout.import(&self.ids.uuid_v7().simple().to_string());
        let failed = |error: std::io::Error| {
            Error::new(Code::BackendUnavailable, "the server has no place for the import").because(error)
        };
        tokio::fs::create_dir_all(&directory).await.map_err(failed)?;
        let limits = SandboxLimits { disk_bytes: self.settings.limits.import_bytes, ..self.settings.build_sandbox };
        let spec = BuildSandboxSpec {
            workspace_id: workspace,
            project_id: project,
            build: None,
            mounts: Vec::new(),
            writable: vec![(INSIDE.to_owned(), directory.clone())],
            overlay: None,
            network: BuildNetwork::Only(endpoint),
            limits,
            time_limit: self.settings.git.time_limit,
        };
        match self.sandboxes.open(spec).await {
            Ok(sandbox) => {
                let open = Open { sandbox, directory, _place: place };
                Ok(Workshop { engine: self.clone(), open: Some(open) })
            }
            Err(error) => {
                self.remove_scratch(directory).await;
                Err(provider_failed(error))
            }
        }
    }

    /// What cannot be removed now is removed at the next start.
    async fn remove_scratch(&self, directory: PathBuf) {
        let removed = self.blocking(move || remove_tree(&directory).map_err(layout_failed)).await;
        if let Err(error) = removed {
            tracing::error!(%error, cause = ?error.cause, "the directory of an import could not be removed");
        }
    }
}
