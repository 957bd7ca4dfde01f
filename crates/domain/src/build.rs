//! Builds, and the versions they make.
//!
//! ```text
//! waiting ─slot→ running(stage) ─ok→ ready        running ─error→ failed(reason)      waiting|running ─cancel→ failed("cancelled")
//!                     └── server or host restart → failed("interrupted")              one not-ended build per project
//! ```

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::declared::Declared;
use crate::digest::BlobId;
use crate::error::{Code, Error, Result};
use crate::ids::{LayerId, ProjectId, WorkspaceId};
use crate::lease::Lease;
use crate::limit::Limit;
use crate::network::BuildNetworkPolicy;
use crate::source::TreeSize;
use crate::time::Timestamp;

/// Where a build's life stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuildState {
    /// Admitted; no slot is free yet.
    Waiting,
    /// At work in a stage.
    Running,
    /// The version exists and is sealed.
    Ready,
    /// No version came of it; the failure says why.
    Failed,
}

impl BuildState {
    /// Every state.
    pub const ALL: [BuildState; 4] = [Self::Waiting, Self::Running, Self::Ready, Self::Failed];

    /// The state as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Ready => "ready",
            Self::Failed => "failed",
        }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether nothing can happen to the build any more.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Ready | Self::Failed)
    }
}

/// What a running build is busy with (UHP Environments §4; the names are its reference names).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Not started.
    Waiting,
    /// Laying the source snapshot out.
    CopyingFiles,
    /// Installing Python packages.
    PythonPackages,
    /// Installing Node packages.
    NodePackages,
    /// Unpacking system packages.
    SystemPackages,
    /// Running the project's own script.
    SetupScript,
    /// Sealing.
    Finishing,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Stage; 7] = [
        Self::Waiting,
        Self::CopyingFiles,
        Self::PythonPackages,
        Self::NodePackages,
        Self::SystemPackages,
        Self::SetupScript,
        Self::Finishing,
    ];

    /// The stage as clients read it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::CopyingFiles => "copying files",
            Self::PythonPackages => "python packages",
            Self::NodePackages => "node packages",
            Self::SystemPackages => "system packages",
            Self::SetupScript => "setup.sh",
            Self::Finishing => "finishing",
        }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == text)
    }
}

/// The sort of reason for which a build failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuildFailureKind {
    /// A step of the project's own ended with an error.
    Step,
    /// A manifest cannot be read.
    Manifest,
    /// A limit on time, memory, disk or processes was reached.
    Limit,
    /// The caller cancelled it.
    Cancelled,
    /// The server or its host stopped meanwhile.
    Interrupted,
    /// A fault of the server itself.
    Internal,
}

impl BuildFailureKind {
    /// Every kind.
    pub const ALL: [BuildFailureKind; 6] =
        [Self::Step, Self::Manifest, Self::Limit, Self::Cancelled, Self::Interrupted, Self::Internal];

    /// The kind as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Manifest => "manifest",
            Self::Limit => "limit",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Internal => "internal",
        }
    }
}

/// Why a build failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildFailure {
    /// The sort of reason.
    pub kind: BuildFailureKind,
    /// Which limit, when it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Hosts that the step was refused and that the project's own network policy could name.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub refused_hosts: BTreeSet<String>,
    /// The reason for people: names the step and its exit status.
    pub message: String,
}

impl BuildFailure {
    /// A failure for this reason.
    pub fn new(kind: BuildFailureKind, message: impl Into<String>) -> Self {
        Self { kind, limit: None, refused_hosts: BTreeSet::new(), message: message.into() }
    }

    /// The failure of a build that a limit ended.
    pub fn limit(limit: Limit, message: impl Into<String>) -> Self {
        Self { limit: Some(limit), ..Self::new(BuildFailureKind::Limit, message) }
    }

    /// The failure of a build whose server or host stopped.
    pub fn interrupted() -> Self {
        Self::new(BuildFailureKind::Interrupted, "interrupted: the server stopped while the build ran; start it again")
    }

    /// The failure of a build that its caller cancelled.
    pub fn cancelled() -> Self {
        Self::new(BuildFailureKind::Cancelled, "cancelled")
    }
}

/// One installed package, as its manager reports it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Package {
    /// `pip`, `npm` or `apt`.
    pub manager: String,
    /// The package's name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// What a session has under `/usr` plus toolchains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// A hash of architecture, libc, Python minor and Node major.
    pub id: String,
    /// The same for people: `x86_64 glibc 2.36, python 3.11, node 20`.
    pub description: String,
}

/// What one build step installed, frozen under a key of everything that went into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Its identity, and the name of its directory.
    pub id: LayerId,
    /// Its tenant: a layer is never shared between workspaces.
    pub workspace_id: WorkspaceId,
    /// The project whose mount path is part of the key.
    pub project_id: ProjectId,
    /// The hash of everything the step read (design §4).
    pub key: BlobId,
    /// The machine whose disk holds it.
    pub node: String,
    /// The step that made it.
    pub step: String,
    /// What it installed.
    pub packages: Vec<Package>,
    /// Its size on disk.
    pub size: TreeSize,
    /// When it was sealed.
    pub created_at: Timestamp,
}

/// A layer's place in a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedLayer {
    /// Where it is mounted, relative to the project's mount; empty for the mount itself.
    pub target: String,
    /// The layers, uppermost first; more than one is mounted as a read-only overlay.
    pub layers: Vec<LayerId>,
}

/// An immutable built project: a source snapshot and its layers, on a recorded base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// What it was built on; a task on another base is refused.
    pub base: Base,
    /// What was installed.
    pub layers: Vec<PlacedLayer>,
    /// The packages, as the managers report them.
    pub packages: Vec<Package>,
    /// The source's size.
    pub source: TreeSize,
    /// Source and layers.
    pub size: TreeSize,
    /// When its files were given up. The record stays; nothing can read the version any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<Timestamp>,
}

/// The work that makes a version; once it is ready, the version itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The project.
    pub project_id: ProjectId,
    /// 1, 2, 3, …; failed builds use up numbers.
    pub number: u32,
    /// The tenant.
    pub workspace_id: WorkspaceId,
    /// Where its life stands.
    pub state: BuildState,
    /// What it is busy with.
    pub stage: Stage,
    /// The snapshot of the source it builds: a blob that lists every entry.
    pub snapshot: BlobId,
    /// What the owner had declared when it was admitted.
    pub declared: Declared,
    /// What its steps may reach, as decided when it was admitted.
    pub network: BuildNetworkPolicy,
    /// Installs everything anew whatever layers exist.
    pub fresh: bool,
    /// The machine it runs on and whose disk holds what it makes.
    pub node: String,
    /// Who carries it out.
    pub lease: Option<Lease>,
    /// When it was admitted.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it failed.
    pub failure: Option<BuildFailure>,
    /// What it made.
    pub version: Option<Version>,
    /// Row version for optimistic concurrency.
    pub row_version: i64,
}

/// What can happen to a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildEvent {
    /// A slot is free and this holder takes the work.
    Claimed(Lease),
    /// Whoever works on it is still at it.
    Renewed(Lease),
    /// The next stage begins.
    Entered(Stage),
    /// The version is sealed on disk.
    Succeeded(Version),
    /// The work failed, was cancelled or was interrupted.
    Failed(BuildFailure),
}

impl Build {
    /// The one transition function of builds. It refuses what the diagram does not show.
    pub fn transition(mut self, event: BuildEvent, at: Timestamp) -> Result<Self> {
        match (self.state, event) {
            (BuildState::Waiting, BuildEvent::Claimed(lease)) => {
                self.state = BuildState::Running;
                self.lease = Some(lease);
            }
            (BuildState::Running, BuildEvent::Renewed(lease))
                if self.lease.is_some_and(|held| held.holder == lease.holder) =>
            {
                self.lease = Some(lease);
            }
            (BuildState::Running, BuildEvent::Entered(stage)) if stage != Stage::Waiting => self.stage = stage,
            (BuildState::Running, BuildEvent::Succeeded(version)) => {
                self.state = BuildState::Ready;
                self.version = Some(version);
                self.end(at);
            }
            (BuildState::Waiting | BuildState::Running, BuildEvent::Failed(failure)) => {
                self.state = BuildState::Failed;
                self.failure = Some(failure);
                self.end(at);
            }
            (state, _) => {
                let message = format!("build {} is {} and cannot do that", self.number, state.as_str());
                return Err(Error::new(Code::ProjectNotReady, message));
            }
        }
        Ok(self)
    }

    /// The version that the build made and whose files are still there.
    pub fn standing(&self) -> Option<&Version> {
        self.version.as_ref().filter(|version| version.removed_at.is_none())
    }

    /// Whether the build made a version whose files were given up.
    pub fn is_removed(&self) -> bool {
        self.version.is_some() && self.standing().is_none()
    }

    /// Gives up the files of the version, for good. The record stays `ready`: it says what was built.
    pub fn remove_version(mut self, at: Timestamp) -> Result<Self> {
        match &mut self.version {
            Some(version) if version.removed_at.is_none() => version.removed_at = Some(at),
            _ => return Err(self.unreadable()),
        }
        Ok(self)
    }

    /// Why nothing can read the version.
    pub fn unreadable(&self) -> Error {
        let number = self.number;
        let message = match self.state {
            BuildState::Ready => {
                format!("the files of version {number} were removed; build again, or read another version")
            }
            state => format!("version {number} is {}, so nothing can read it", state.as_str()),
        };
        Error::new(Code::ProjectNotReady, message)
    }

    fn end(&mut self, at: Timestamp) {
        self.finished_at = Some(at);
        self.lease = None;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ids::ServerId;

    pub(crate) fn sample(number: u32, state: BuildState) -> Build {
        let uuid = uuid::Uuid::try_parse("018f3c2a7b4c7d3e9f6a5b4c3d2e1f00").unwrap();
        Build {
            project_id: ProjectId::from_uuid(uuid),
            number,
            workspace_id: WorkspaceId::from_uuid(uuid),
            state,
            stage: Stage::Waiting,
            snapshot: BlobId::from_bytes([1; 32]),
            declared: Declared::default(),
            network: BuildNetworkPolicy::default(),
            fresh: false,
            node: "node".into(),
            lease: None,
            started_at: Timestamp::from_micros(1),
            finished_at: None,
            failure: None,
            version: None,
            row_version: 1,
        }
    }

    pub(crate) fn version() -> Version {
        let base = Base { id: "b".into(), description: "b".into() };
        let size = TreeSize::default();
        Version { base, layers: vec![], packages: vec![], source: size, size, removed_at: None }
    }

    #[test]
    fn a_version_is_removed_once_and_its_record_stays() {
        let at = Timestamp::from_micros(9);
        let ready = Build { version: Some(version()), ..sample(1, BuildState::Ready) };
        assert!(ready.standing().is_some() && !ready.is_removed());
        let removed = ready.remove_version(at).unwrap();
        assert_eq!((removed.state, removed.is_removed(), removed.standing()), (BuildState::Ready, true, None));
        let again = removed.remove_version(at).unwrap_err();
        assert_eq!((again.code, again.message.contains("were removed")), (Code::ProjectNotReady, true));
        assert!(sample(1, BuildState::Failed).remove_version(at).is_err());
    }

    fn events() -> [(&'static str, BuildEvent); 5] {
        let holder = ServerId::from_uuid(uuid::Uuid::try_parse("018f3c2a7b4c7d3e9f6a5b4c3d2e1f00").unwrap());
        let lease = Lease { holder, until: Timestamp::from_micros(0).plus(Duration::from_secs(1)) };
        [
            ("claimed", BuildEvent::Claimed(lease)),
            ("renewed", BuildEvent::Renewed(lease)),
            ("entered", BuildEvent::Entered(Stage::PythonPackages)),
            ("succeeded", BuildEvent::Succeeded(version())),
            ("failed", BuildEvent::Failed(BuildFailure::interrupted())),
        ]
    }

    #[test]
    fn every_state_meets_every_event() {
        let mut table = Vec::new();
        for state in BuildState::ALL {
            for (name, event) in events() {
                let end = sample(1, state).transition(event, Timestamp::from_micros(9));
                table.push((state.as_str(), name, end.map_or("refused", |build| build.state.as_str())));
            }
        }
        assert_eq!(
            table,
            [
                ("waiting", "claimed", "running"),
                ("waiting", "renewed", "refused"),
                ("waiting", "entered", "refused"),
                ("waiting", "succeeded", "refused"),
                ("waiting", "failed", "failed"),
                ("running", "claimed", "refused"),
                ("running", "renewed", "refused"),
                ("running", "entered", "running"),
                ("running", "succeeded", "ready"),
                ("running", "failed", "failed"),
                ("ready", "claimed", "refused"),
                ("ready", "renewed", "refused"),
                ("ready", "entered", "refused"),
                ("ready", "succeeded", "refused"),
                ("ready", "failed", "refused"),
                ("failed", "claimed", "refused"),
                ("failed", "renewed", "refused"),
                ("failed", "entered", "refused"),
                ("failed", "succeeded", "refused"),
                ("failed", "failed", "refused"),
            ]
        );
    }

    #[test]
    fn who_works_on_a_build_renews_his_claim() {
        let holder = ServerId::from_uuid(uuid::Uuid::try_parse("018f3c2a7b4c7d3e9f6a5b4c3d2e1f00").unwrap());
        let (begun, later) = (Timestamp::from_micros(9), Timestamp::from_micros(9_000_000));
        let build = Build { lease: Some(Lease::taken(holder, begun)), ..sample(1, BuildState::Running) };
        let renewed = build.transition(BuildEvent::Renewed(Lease::taken(holder, later)), later).unwrap();
        assert_eq!(renewed.lease, Some(Lease::taken(holder, later)));
    }

    #[test]
    fn an_ended_build_holds_no_lease_and_has_an_end() {
        let ended = sample(1, BuildState::Running)
            .transition(BuildEvent::Succeeded(version()), Timestamp::from_micros(9))
            .unwrap();
        assert_eq!((ended.lease, ended.finished_at), (None, Some(Timestamp::from_micros(9))));
    }
}
