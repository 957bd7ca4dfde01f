//! Attachments: one session's use of one environment.

use serde::{Deserialize, Serialize};

use crate::ids::{AttachmentId, EnvironmentId, ProjectId, SessionId, WorkspaceId};
use crate::time::Timestamp;

/// A project at the version that this session reads. It holds for later turns until the caller moves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The project.
    pub project_id: ProjectId,
    /// The version.
    pub version: u32,
}

/// One session's use of one environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its identity.
    pub id: AttachmentId,
    /// Its tenant.
    pub workspace_id: WorkspaceId,
    /// The session.
    pub session_id: SessionId,
    /// The environment.
    pub environment_id: EnvironmentId,
    /// What the session calls it.
    pub name: String,
    /// The versions that its turns read.
    pub pins: Vec<Pin>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Row version for optimistic concurrency.
    pub row_version: i64,
}

impl Attachment {
    /// The name of a session's first environment, mounted at `/workspace`.
    pub const PRIMARY: &'static str = "workspace";

    /// The version of `project` that the session is pinned to.
    pub fn pinned(&self, project: ProjectId) -> Option<u32> {
        self.pins.iter().find(|pin| pin.project_id == project).map(|pin| pin.version)
    }

    /// Pins `project` at `version` and says whether that changed anything.
    pub fn pin(&mut self, project: ProjectId, version: u32) -> bool {
        match self.pins.iter_mut().find(|pin| pin.project_id == project) {
            Some(pin) if pin.version == version => false,
            Some(pin) => {
                pin.version = version;
                true
            }
            None => {
                self.pins.push(Pin { project_id: project, version });
                true
            }
        }
    }
}
