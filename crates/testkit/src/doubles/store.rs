//! A store that fails or hangs when a test says so.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stead_domain::agent::Agent;
use stead_domain::attachment::{Attachment, Pin};
use stead_domain::audit::AuditEntry;
use stead_domain::build::{Build, Layer};
use stead_domain::changes::Changes;
use stead_domain::environment::Environment;
use stead_domain::event::Event;
use stead_domain::file::{Artifact, Upload};
use stead_domain::idempotency::{IdempotencyRecord, IdempotencyScope};
use stead_domain::key::{Key, SecretDigest};
use stead_domain::operation::Operation;
use stead_domain::ports::{CommitError, Committed, Page, PortFuture, SessionFilter, Store, StoreError, Tally};
use stead_domain::project::Project;
use stead_domain::session::Session;
use stead_domain::source::SourceEntry;
use stead_domain::turn::Turn;
use stead_domain::workspace::Workspace;
use stead_domain::{
    AgentId, AuditId, BlobId, EnvironmentId, FileId, LayerId, OperationId, ProjectId, SessionId, Slug, SourcePath,
    Timestamp, TurnId, WorkspaceId,
};

type Read<'a, T> = PortFuture<'a, Result<T, StoreError>>;

/// What becomes of one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitFate {
    /// It happens.
    Happens,
    /// It does not, and the caller is told that the store failed.
    Fails,
    /// It happens, and the caller is told that the store failed.
    AnswerLost,
    /// It never happens, and the caller is told nothing.
    Hangs,
    /// It happens, and the caller is told nothing.
    HangsDone,
}

/// The store; clones of the `Arc` share what the test decides.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    fates: Mutex<VecDeque<CommitFate>>,
    down: AtomicBool,
    commits: AtomicU64,
}

fn failed(action: &'static str) -> StoreError {
    StoreError { action, source: "the test lets it fail".into() }
}

impl FaultyStore {
    /// In front of this one; well at first.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        let (fates, down) = (Mutex::default(), AtomicBool::new(false));
        Arc::new(Self { inner, fates, down, commits: AtomicU64::new(0) })
    }

    /// What becomes of the next commits, in order; those after them happen.
    pub fn decide(&self, fates: impl IntoIterator<Item = CommitFate>) {
        *self.fates.lock().unwrap_or_else(PoisonError::into_inner) = fates.into_iter().collect();
    }

    /// Whether every read and every commit fails at once.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// How often a commit was asked for.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    fn fate(&self) -> CommitFate {
        self.commits.fetch_add(1, Ordering::SeqCst);
        let decided = self.fates.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        match decided {
            _ if self.down.load(Ordering::SeqCst) => CommitFate::Fails,
            decided => decided.unwrap_or(CommitFate::Happens),
        }
    }

    fn read<'a, T: Send + 'a>(&self, answer: Read<'a, T>) -> Read<'a, T> {
        if self.down.load(Ordering::SeqCst) {
            return Box::pin(async { Err(failed("read")) });
        }
        answer
    }
}

impl Store for FaultyStore {
    fn commit(&self, changes: Changes) -> PortFuture<'_, Result<Committed, CommitError>> {
        let fate = self.fate();
        Box::pin(async move {
            match fate {
                CommitFate::Happens => self.inner.commit(changes).await,
                CommitFate::Fails => Err(CommitError::Store(failed("commit"))),
                CommitFate::AnswerLost => {
                    self.inner.commit(changes).await?;
                    Err(CommitError::Store(failed("commit")))
                }
                CommitFate::Hangs => std::future::pending().await,
                CommitFate::HangsDone => {
                    self.inner.commit(changes).await?;
                    std::future::pending().await
                }
            }
        })
    }

    fn now(&self) -> Read<'_, Timestamp> {
        self.read(self.inner.now())
    }

    fn workspaces_list(&self) -> Read<'_, Vec<Workspace>> {
        self.read(self.inner.workspaces_list())
    }

    fn workspace_first(&self) -> Read<'_, Option<Workspace>> {
        self.read(self.inner.workspace_first())
    }

    fn key_by_digest<'a>(&'a self, digest: &'a SecretDigest) -> Read<'a, Option<Key>> {
        self.read(self.inner.key_by_digest(digest))
    }

    fn keys_list(&self, workspace: WorkspaceId) -> Read<'_, Vec<Key>> {
        self.read(self.inner.keys_list(workspace))
    }

    fn project_fetch(&self, workspace: WorkspaceId, id: ProjectId) -> Read<'_, Option<Project>> {
        self.read(self.inner.project_fetch(workspace, id))
    }

    fn project_by_slug<'a>(&'a self, workspace: WorkspaceId, slug: &'a Slug) -> Read<'a, Option<Project>> {
        self.read(self.inner.project_by_slug(workspace, slug))
    }

    fn projects_list(&self, workspace: WorkspaceId) -> Read<'_, Vec<(Project, Option<Build>)>> {
        self.read(self.inner.projects_list(workspace))
    }

    fn projects_deleted<'a>(&'a self, node: &'a str, limit: usize) -> Read<'a, Vec<Project>> {
        self.read(self.inner.projects_deleted(node, limit))
    }

    fn source_at<'a>(&'a self, project: ProjectId, paths: &'a [SourcePath]) -> Read<'a, Vec<SourceEntry>> {
        self.read(self.inner.source_at(project, paths))
    }

    fn source_subtree<'a>(&'a self, project: ProjectId, path: &'a SourcePath) -> Read<'a, Vec<SourceEntry>> {
        self.read(self.inner.source_subtree(project, path))
    }

    fn source_page<'a>(
        &'a self,
        project: ProjectId,
        under: Option<&'a SourcePath>,
        after: Option<&'a SourcePath>,
        limit: usize,
    ) -> Read<'a, Page<SourceEntry>> {
        self.read(self.inner.source_page(project, under, after, limit))
    }

    fn source_blobs(&self, project: ProjectId) -> Read<'_, Vec<BlobId>> {
        self.read(self.inner.source_blobs(project))
    }

    fn source_list(&self, project: ProjectId) -> Read<'_, Vec<SourceEntry>> {
        self.read(self.inner.source_list(project))
    }

    fn build_fetch(&self, project: ProjectId, number: u32) -> Read<'_, Option<Build>> {
        self.read(self.inner.build_fetch(project, number))
    }

    fn builds_list(&self, project: ProjectId) -> Read<'_, Vec<Build>> {
        self.read(self.inner.builds_list(project))
    }

    fn builds_of_workspace(&self, workspace: WorkspaceId) -> Read<'_, Vec<Build>> {
        self.read(self.inner.builds_of_workspace(workspace))
    }

    fn builds_unended<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Build>> {
        self.read(self.inner.builds_unended(node))
    }

    fn layer_by_key<'a>(&'a self, workspace: WorkspaceId, node: &'a str, key: BlobId) -> Read<'a, Option<Layer>> {
        self.read(self.inner.layer_by_key(workspace, node, key))
    }

    fn layers_list<'a>(&'a self, workspace: WorkspaceId, node: &'a str) -> Read<'a, Vec<Layer>> {
        self.read(self.inner.layers_list(workspace, node))
    }

    fn layers_fetch<'a>(&'a self, ids: &'a [LayerId]) -> Read<'a, Vec<Layer>> {
        self.read(self.inner.layers_fetch(ids))
    }

    fn agent_fetch(&self, workspace: WorkspaceId, id: AgentId) -> Read<'_, Option<Agent>> {
        self.read(self.inner.agent_fetch(workspace, id))
    }

    fn agents_list(&self, workspace: WorkspaceId) -> Read<'_, Vec<Agent>> {
        self.read(self.inner.agents_list(workspace))
    }

    fn agents_of_project(&self, workspace: WorkspaceId, project: ProjectId) -> Read<'_, Vec<Agent>> {
        self.read(self.inner.agents_of_project(workspace, project))
    }

    fn session_fetch(&self, workspace: WorkspaceId, id: SessionId) -> Read<'_, Option<Session>> {
        self.read(self.inner.session_fetch(workspace, id))
    }

    fn sessions_list(&self, workspace: WorkspaceId, filter: SessionFilter) -> Read<'_, Page<Session>> {
        self.read(self.inner.sessions_list(workspace, filter))
    }

    fn sessions_deleted<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Session>> {
        self.read(self.inner.sessions_deleted(node))
    }

    fn turn_fetch(&self, workspace: WorkspaceId, id: TurnId) -> Read<'_, Option<Turn>> {
        self.read(self.inner.turn_fetch(workspace, id))
    }

    fn turns_list(&self, session: SessionId) -> Read<'_, Vec<Turn>> {
        self.read(self.inner.turns_list(session))
    }

    fn turns_unended<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Turn>> {
        self.read(self.inner.turns_unended(node))
    }

    fn events_after(&self, session: SessionId, after: i64, limit: usize) -> Read<'_, Vec<Event>> {
        self.read(self.inner.events_after(session, after, limit))
    }

    fn pins_held(&self, workspace: WorkspaceId) -> Read<'_, Vec<Pin>> {
        self.read(self.inner.pins_held(workspace))
    }

    fn attachments_of(&self, session: SessionId) -> Read<'_, Vec<Attachment>> {
        self.read(self.inner.attachments_of(session))
    }

    fn environment_fetch(&self, id: EnvironmentId) -> Read<'_, Option<Environment>> {
        self.read(self.inner.environment_fetch(id))
    }

    fn environments_on<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Environment>> {
        self.read(self.inner.environments_on(node))
    }

    fn operation_fetch(&self, id: OperationId) -> Read<'_, Option<Operation>> {
        self.read(self.inner.operation_fetch(id))
    }

    fn operations_unended<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Operation>> {
        self.read(self.inner.operations_unended(node))
    }

    fn upload_fetch(&self, workspace: WorkspaceId, id: FileId) -> Read<'_, Option<Upload>> {
        self.read(self.inner.upload_fetch(workspace, id))
    }

    fn uploads_unused(&self, workspace: WorkspaceId, before: Timestamp) -> Read<'_, Vec<Upload>> {
        self.read(self.inner.uploads_unused(workspace, before))
    }

    fn artifacts_of(&self, session: SessionId) -> Read<'_, Vec<Artifact>> {
        self.read(self.inner.artifacts_of(session))
    }

    fn artifact_fetch(&self, workspace: WorkspaceId, id: FileId) -> Read<'_, Option<Artifact>> {
        self.read(self.inner.artifact_fetch(workspace, id))
    }

    fn blobs_of_files(&self, workspace: WorkspaceId) -> Read<'_, Vec<BlobId>> {
        self.read(self.inner.blobs_of_files(workspace))
    }

    fn audit_list(
        &self,
        workspace: Option<WorkspaceId>,
        before: Option<AuditId>,
        limit: usize,
    ) -> Read<'_, Page<AuditEntry>> {
        self.read(self.inner.audit_list(workspace, before, limit))
    }

    fn census<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Tally>> {
        self.read(self.inner.census(node))
    }

    fn idempotency_fetch<'a>(&'a self, scope: &'a IdempotencyScope) -> Read<'a, Option<IdempotencyRecord>> {
        self.read(self.inner.idempotency_fetch(scope))
    }
}
