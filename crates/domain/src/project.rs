//! Projects: files and manifests, edited by path, built into versions.

use serde::{Deserialize, Serialize};

use crate::build::{Build, BuildState, Stage};
use crate::declared::Declared;
use crate::digest::BlobId;
use crate::error::{Code, Error, Result};
use crate::ids::{ProjectId, WorkspaceId};
use crate::network::BuildNetworkPolicy;
use crate::slug::Slug;
use crate::source::TreeSize;
use crate::time::Timestamp;

/// A project (UHP: an environment).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Its identity.
    pub id: ProjectId,
    /// Its tenant.
    pub workspace_id: WorkspaceId,
    /// A label for people.
    pub name: String,
    /// Its place; never changes.
    pub slug: Slug,
    /// What it is, in the owner's words.
    pub description: String,
    /// How to run it, in the owner's words; handed to agents word for word.
    pub entry: String,
    /// Packages and interpreter that the owner asks for besides the manifests.
    pub declared: Declared,
    /// What its builds may reach; absent for the deployment's default.
    pub build_network: Option<BuildNetworkPolicy>,
    /// The version that the next session reads.
    pub active: Option<u32>,
    /// The newest build, active or not; 0 before the first.
    pub latest: u32,
    /// The size of the source.
    pub source: TreeSize,
    /// Counts edits of the source, so that a snapshot knows what it saw.
    pub source_revision: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was deleted; a turn that reads it keeps its version.
    pub deleted_at: Option<Timestamp>,
    /// Row version for optimistic concurrency.
    pub row_version: i64,
}

/// What a project's status is derived from, never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProjectStatus {
    /// Nothing is built.
    Empty,
    /// A build is not ended, whatever is active.
    Building,
    /// A version is active and nothing is building.
    Ready,
    /// The latest build failed and nothing is active.
    Failed,
}

impl ProjectStatus {
    /// The status as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Building => "building",
            Self::Ready => "ready",
            Self::Failed => "failed",
        }
    }
}

/// The longest name, description and entry, in bytes.
pub const MAX_TEXT: usize = 4096;

impl Project {
    /// The status, derived (UHP Environments §2): building > active exists > latest failed > empty.
    pub fn status(&self, latest: Option<&Build>) -> ProjectStatus {
        match latest.map(|build| build.state) {
            Some(state) if !state.is_ended() => ProjectStatus::Building,
            _ if self.active.is_some() => ProjectStatus::Ready,
            Some(BuildState::Failed) => ProjectStatus::Failed,
            _ => ProjectStatus::Empty,
        }
    }

    /// Refuses texts that no label needs.
    pub fn check_texts(name: &str, description: &str, entry: &str) -> Result<()> {
        for (param, text) in [("name", name), ("description", description), ("entry", entry)] {
            if text.len() > MAX_TEXT {
                return Err(
                    Error::new(Code::ProjectInvalid, format!("`{param}` is longer than {MAX_TEXT} bytes")).at(param)
                );
            }
            if text.contains('\0') {
                return Err(Error::new(Code::ProjectInvalid, format!("`{param}` contains a NUL character")).at(param));
            }
        }
        Ok(())
    }

    /// Admits a build: the next number, from this snapshot of the source. One build runs at a time.
    pub fn admit_build(
        mut self,
        latest: Option<&Build>,
        snapshot: BlobId,
        fresh: bool,
        network: BuildNetworkPolicy,
        node: &str,
        at: Timestamp,
    ) -> Result<(Self, Build)> {
        if latest.is_some_and(|build| !build.state.is_ended()) {
            return Err(Error::new(Code::ProjectBusy, "a build of this project is already running"));
        }
        self.latest += 1;
        self.updated_at = at;
        let build = Build {
            project_id: self.id,
            number: self.latest,
            workspace_id: self.workspace_id,
            state: BuildState::Waiting,
            stage: Stage::Waiting,
            snapshot,
            declared: self.declared.clone(),
            network,
            fresh,
            node: node.to_owned(),
            lease: None,
            started_at: at,
            finished_at: None,
            failure: None,
            version: None,
            row_version: 1,
        };
        Ok((self, build))
    }

    /// Moves the pointer that new sessions follow. Nothing is rebuilt; only a build that is ready can be active.
    pub fn activate(mut self, build: &Build, at: Timestamp) -> Result<Self> {
        if build.state != BuildState::Ready {
            let message =
                format!("build {} is {}; only a finished build can be active", build.number, build.state.as_str());
            return Err(Error::new(Code::ProjectNotReady, message).at("version"));
        }
        if build.is_removed() {
            return Err(build.unreadable().at("version"));
        }
        self.active = Some(build.number);
        self.updated_at = at;
        Ok(self)
    }

    /// Deletes the project with every version; refused while a build runs.
    pub fn delete(mut self, latest: Option<&Build>, at: Timestamp) -> Result<Self> {
        if latest.is_some_and(|build| !build.state.is_ended()) {
            return Err(Error::new(
                Code::ProjectBusy,
                "a build of this project is running; delete it when that has ended",
            ));
        }
        self.deleted_at = Some(at);
        self.updated_at = at;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::tests::sample;

    fn project(active: Option<u32>) -> Project {
        let uuid = uuid::Uuid::try_parse("018f3c2a7b4c7d3e9f6a5b4c3d2e1f00").unwrap();
        Project {
            id: ProjectId::from_uuid(uuid),
            workspace_id: WorkspaceId::from_uuid(uuid),
            name: "Demo".into(),
            slug: Slug::from_name("Demo").unwrap(),
            description: String::new(),
            entry: String::new(),
            declared: Declared::default(),
            build_network: None,
            active,
            latest: 3,
            source: TreeSize::default(),
            source_revision: 0,
            created_at: Timestamp::from_micros(1),
            updated_at: Timestamp::from_micros(1),
            deleted_at: None,
            row_version: 1,
        }
    }

    #[test]
    fn status_is_derived_from_the_latest_build_and_the_active_version() {
        use BuildState::{Failed, Ready, Running, Waiting};
        for (latest, active, status) in [
            (None, None, "empty"),
            (Some(Waiting), None, "building"),
            (Some(Running), Some(1), "building"),
            (Some(Failed), None, "failed"),
            (Some(Failed), Some(1), "ready"),
            (Some(Ready), Some(3), "ready"),
        ] {
            let latest = latest.map(|state| sample(3, state));
            assert_eq!(project(active).status(latest.as_ref()).as_str(), status);
        }
    }

    #[test]
    fn one_build_at_a_time_and_only_finished_builds_become_active() {
        let at = Timestamp::from_micros(5);
        let snapshot = BlobId::from_bytes([0; 32]);
        for state in BuildState::ALL {
            let latest = sample(3, state);
            let admitted =
                project(None).admit_build(Some(&latest), snapshot, false, BuildNetworkPolicy::Registries, "n", at);
            assert_eq!(admitted.is_ok(), state.is_ended());
            if let Ok((project, build)) = admitted {
                assert_eq!((project.latest, build.number, build.state), (4, 4, BuildState::Waiting));
            }
            assert_eq!(project(None).delete(Some(&latest), at).is_ok(), state.is_ended());
            assert_eq!(project(None).activate(&latest, at).is_ok(), state == BuildState::Ready);
        }
    }
}
