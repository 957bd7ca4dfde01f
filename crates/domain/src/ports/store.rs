//! Where rows are kept: one writing port and narrow reads.

use super::PortFuture;
use crate::agent::Agent;
use crate::attachment::{Attachment, Pin};
use crate::audit::AuditEntry;
use crate::build::{Build, Layer};
use crate::changes::Changes;
use crate::digest::BlobId;
use crate::environment::Environment;
use crate::event::Event;
use crate::file::{Artifact, Upload};
use crate::idempotency::{IdempotencyRecord, IdempotencyScope};
use crate::ids::{
    AgentId, AuditId, EnvironmentId, FileId, LayerId, OperationId, ProjectId, SessionId, TurnId, WorkspaceId,
};
use crate::key::{Key, SecretDigest};
use crate::operation::Operation;
use crate::path::SourcePath;
use crate::project::Project;
use crate::session::Session;
use crate::slug::Slug;
use crate::source::SourceEntry;
use crate::time::Timestamp;
use crate::turn::Turn;
use crate::workspace::Workspace;

/// The store does not answer, or its rows are not what they must be.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action}")]
pub struct StoreError {
    /// What was being done.
    pub action: &'static str,
    /// Why it failed.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Why a commit did not happen.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A row has moved on, an id or a unique name is taken: read again and decide again.
    #[error("the commit met a newer row in {0}")]
    Conflict(&'static str),
    /// The store does not answer; nothing was committed, or nobody knows.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A durable commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// When, by the database's clock.
    pub at: Timestamp,
    /// How many rows its removals found.
    pub removed: u64,
}

/// A part of a list, in the list's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Whether rows follow.
    pub more: bool,
}

/// Which sessions to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Only those of this agent.
    pub agent_id: Option<AgentId>,
    /// Only those older than this one.
    pub before: Option<SessionId>,
    /// At most this many.
    pub limit: usize,
}

/// How many of something are in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// The noun: `turn`, `build`, `operation`, `environment`, `session`.
    pub noun: String,
    /// The state; `live` for sessions that are not deleted.
    pub state: String,
    /// How many.
    pub count: u64,
}

type Read<'a, T> = PortFuture<'a, Result<T, StoreError>>;

/// The store. Every read that takes a workspace sees that workspace alone; `fetch` may miss. Deleted projects, agents and
/// sessions are found by id (callers check `deleted_at`) and never listed.
pub trait Store: Send + Sync {
    /// Carries out everything in `changes`, durably and at once, or nothing.
    fn commit(&self, changes: Changes) -> PortFuture<'_, Result<Committed, CommitError>>;

    /// The database's clock.
    fn now(&self) -> Read<'_, Timestamp>;

    /// Every workspace, oldest first.
    fn workspaces_list(&self) -> Read<'_, Vec<Workspace>>;
    /// The oldest workspace: the one that a fresh server makes.
    fn workspace_first(&self) -> Read<'_, Option<Workspace>>;

    /// A key by the hash of its secret.
    fn key_by_digest<'a>(&'a self, digest: &'a SecretDigest) -> Read<'a, Option<Key>>;
    /// The keys of a workspace, oldest first.
    fn keys_list(&self, workspace: WorkspaceId) -> Read<'_, Vec<Key>>;

    /// A project of the workspace.
    fn project_fetch(&self, workspace: WorkspaceId, id: ProjectId) -> Read<'_, Option<Project>>;
    /// The project that occupies a slug, deleted ones excepted.
    fn project_by_slug<'a>(&'a self, workspace: WorkspaceId, slug: &'a Slug) -> Read<'a, Option<Project>>;
    /// The projects of a workspace with their latest builds, oldest first.
    fn projects_list(&self, workspace: WorkspaceId) -> Read<'_, Vec<(Project, Option<Build>)>>;
    /// Deleted projects of which something remains: those with a build on this machine or with none on any, at most `limit`.
    fn projects_deleted<'a>(&'a self, node: &'a str, limit: usize) -> Read<'a, Vec<Project>>;
    /// The entries at exactly these paths.
    fn source_at<'a>(&'a self, project: ProjectId, paths: &'a [SourcePath]) -> Read<'a, Vec<SourceEntry>>;
    /// The entry at a path and everything beneath it.
    fn source_subtree<'a>(&'a self, project: ProjectId, path: &'a SourcePath) -> Read<'a, Vec<SourceEntry>>;
    /// A part of a source, ordered by the bytes of the paths: at most `limit` entries whose paths come after `after`, and with
    /// `under` only what lies beneath that directory.
    fn source_page<'a>(
        &'a self,
        project: ProjectId,
        under: Option<&'a SourcePath>,
        after: Option<&'a SourcePath>,
        limit: usize,
    ) -> Read<'a, Page<SourceEntry>>;
    /// The blobs that a source names, each once.
    fn source_blobs(&self, project: ProjectId) -> Read<'_, Vec<BlobId>>;
    /// The whole source, ordered by path.
    fn source_list(&self, project: ProjectId) -> Read<'_, Vec<SourceEntry>>;

    /// A build.
    fn build_fetch(&self, project: ProjectId, number: u32) -> Read<'_, Option<Build>>;
    /// The builds of a project, oldest first.
    fn builds_list(&self, project: ProjectId) -> Read<'_, Vec<Build>>;
    /// The builds of a workspace's projects, those of deleted projects excepted.
    fn builds_of_workspace(&self, workspace: WorkspaceId) -> Read<'_, Vec<Build>>;
    /// The builds of a machine that are not ended, oldest first.
    fn builds_unended<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Build>>;
    /// The newest layer with this key in the workspace, on this machine.
    fn layer_by_key<'a>(&'a self, workspace: WorkspaceId, node: &'a str, key: BlobId) -> Read<'a, Option<Layer>>;
    /// The layers of a workspace on this machine, oldest first.
    fn layers_list<'a>(&'a self, workspace: WorkspaceId, node: &'a str) -> Read<'a, Vec<Layer>>;
    /// Layers by id, in any order.
    fn layers_fetch<'a>(&'a self, ids: &'a [LayerId]) -> Read<'a, Vec<Layer>>;

    /// An agent of the workspace.
    fn agent_fetch(&self, workspace: WorkspaceId, id: AgentId) -> Read<'_, Option<Agent>>;
    /// The agents of a workspace, oldest first.
    fn agents_list(&self, workspace: WorkspaceId) -> Read<'_, Vec<Agent>>;
    /// The agents that name a project, oldest first.
    fn agents_of_project(&self, workspace: WorkspaceId, project: ProjectId) -> Read<'_, Vec<Agent>>;

    /// A session of the workspace.
    fn session_fetch(&self, workspace: WorkspaceId, id: SessionId) -> Read<'_, Option<Session>>;
    /// Sessions of a workspace, newest first.
    fn sessions_list(&self, workspace: WorkspaceId, filter: SessionFilter) -> Read<'_, Page<Session>>;
    /// Deleted sessions of which something remains.
    fn sessions_deleted<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Session>>;
    /// A turn of the workspace.
    fn turn_fetch(&self, workspace: WorkspaceId, id: TurnId) -> Read<'_, Option<Turn>>;
    /// The turns of a session, oldest first.
    fn turns_list(&self, session: SessionId) -> Read<'_, Vec<Turn>>;
    /// Turns that are not ended and whose environment lives on this machine, oldest first.
    fn turns_unended<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Turn>>;
    /// The session's log after a number, in order, at most `limit` entries.
    fn events_after(&self, session: SessionId, after: i64, limit: usize) -> Read<'_, Vec<Event>>;

    /// What the sessions of a workspace are pinned to, deleted ones excepted; each pin at least once.
    fn pins_held(&self, workspace: WorkspaceId) -> Read<'_, Vec<Pin>>;
    /// The attachments of a session.
    fn attachments_of(&self, session: SessionId) -> Read<'_, Vec<Attachment>>;
    /// An environment.
    fn environment_fetch(&self, id: EnvironmentId) -> Read<'_, Option<Environment>>;
    /// The environments of a machine that are not deleted.
    fn environments_on<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Environment>>;
    /// An operation.
    fn operation_fetch(&self, id: OperationId) -> Read<'_, Option<Operation>>;
    /// Operations of a machine that are not ended, oldest first.
    fn operations_unended<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Operation>>;

    /// An uploaded file of the workspace.
    fn upload_fetch(&self, workspace: WorkspaceId, id: FileId) -> Read<'_, Option<Upload>>;
    /// Uploads from before an instant whose contents are in no turn's input, oldest first.
    fn uploads_unused(&self, workspace: WorkspaceId, before: Timestamp) -> Read<'_, Vec<Upload>>;
    /// The artifacts of a session, in the order in which they were collected.
    fn artifacts_of(&self, session: SessionId) -> Read<'_, Vec<Artifact>>;
    /// An artifact of the workspace.
    fn artifact_fetch(&self, workspace: WorkspaceId, id: FileId) -> Read<'_, Option<Artifact>>;

    /// The blobs that uploads, artifacts and the inputs of turns name, each at least once.
    fn blobs_of_files(&self, workspace: WorkspaceId) -> Read<'_, Vec<BlobId>>;

    /// Who did what: newest first, at most `limit` entries that are older than `before`; of one workspace or of all.
    fn audit_list(
        &self,
        workspace: Option<WorkspaceId>,
        before: Option<AuditId>,
        limit: usize,
    ) -> Read<'_, Page<AuditEntry>>;

    /// How many of what lives there is: on this machine turns and operations that are not ended, builds that wait or run and
    /// environments that are not deleted; and everybody's sessions. States that nothing is in are left out.
    fn census<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Tally>>;

    /// What an earlier request of the same scope made.
    fn idempotency_fetch<'a>(&'a self, scope: &'a IdempotencyScope) -> Read<'a, Option<IdempotencyRecord>>;
}
