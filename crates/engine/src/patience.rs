//! The store as the engine uses it: every question and every commit has a deadline, and all of them are counted.
//!
//! An answer that comes too late counts as none. Of a commit nobody knows then whether it happened, as when the store says
//! itself that it failed; whoever has to know reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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

/// The answer did not come in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:?}")]
struct Late(Duration);

/// How often the store was asked since the engine was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreUse {
    /// Questions.
    pub reads: u64,
    /// Commits, whether they happened or met a newer row.
    pub commits: u64,
}

/// A store whose answers are waited for so long and no longer.
pub(crate) struct PatientStore {
    inner: Arc<dyn Store>,
    patience: Duration,
    reads: AtomicU64,
    commits: AtomicU64,
}

impl PatientStore {
    pub(crate) fn new(inner: Arc<dyn Store>, patience: Duration) -> Self {
        Self { inner, patience, reads: AtomicU64::new(0), commits: AtomicU64::new(0) }
    }

    /// How often it was asked.
    pub(crate) fn used(&self) -> StoreUse {
        StoreUse { reads: self.reads.load(Ordering::Relaxed), commits: self.commits.load(Ordering::Relaxed) }
    }

    fn ask<'a, T: Send + 'a>(&self, question: Read<'a, T>) -> Read<'a, T> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let patience = self.patience;
        Box::pin(async move {
            let late = |_| StoreError { action: "answer a question", source: Box::new(Late(patience)) };
            tokio::time::timeout(patience, question).await.map_err(late)?
        })
    }
}

impl Store for PatientStore {
    fn commit(&self, changes: Changes) -> PortFuture<'_, Result<Committed, CommitError>> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        let patience = self.patience * 3;
        Box::pin(async move {
            match tokio::time::timeout(patience, self.inner.commit(changes)).await {
                Ok(committed) => committed,
                Err(_) => Err(CommitError::Store(StoreError { action: "commit", source: Box::new(Late(patience)) })),
            }
        })
    }

    fn now(&self) -> Read<'_, Timestamp> {
        self.ask(self.inner.now())
    }

    fn workspaces_list(&self) -> Read<'_, Vec<Workspace>> {
        self.ask(self.inner.workspaces_list())
    }

    fn workspace_first(&self) -> Read<'_, Option<Workspace>> {
        self.ask(self.inner.workspace_first())
    }

    fn key_by_digest<'a>(&'a self, digest: &'a SecretDigest) -> Read<'a, Option<Key>> {
        self.ask(self.inner.key_by_digest(digest))
    }

    fn keys_list(&self, workspace: WorkspaceId) -> Read<'_, Vec<Key>> {
        self.ask(self.inner.keys_list(workspace))
    }

    fn project_fetch(&self, workspace: WorkspaceId, id: ProjectId) -> Read<'_, Option<Project>> {
        self.ask(self.inner.project_fetch(workspace, id))
    }

    fn project_by_slug<'a>(&'a self, workspace: WorkspaceId, slug: &'a Slug) -> Read<'a, Option<Project>> {
        self.ask(self.inner.project_by_slug(workspace, slug))
    }

    fn projects_list(&self, workspace: WorkspaceId) -> Read<'_, Vec<(Project, Option<Build>)>> {
        self.ask(self.inner.projects_list(workspace))
    }

    fn projects_deleted<'a>(&'a self, node: &'a str, limit: usize) -> Read<'a, Vec<Project>> {
        self.ask(self.inner.projects_deleted(node, limit))
    }

    fn source_at<'a>(&'a self, project: ProjectId, paths: &'a [SourcePath]) -> Read<'a, Vec<SourceEntry>> {
        self.ask(self.inner.source_at(project, paths))
    }

    fn source_subtree<'a>(&'a self, project: ProjectId, path: &'a SourcePath) -> Read<'a, Vec<SourceEntry>> {
        self.ask(self.inner.source_subtree(project, path))
    }

    fn source_page<'a>(
        &'a self,
        project: ProjectId,
        under: Option<&'a SourcePath>,
        after: Option<&'a SourcePath>,
        limit: usize,
    ) -> Read<'a, Page<SourceEntry>> {
        self.ask(self.inner.source_page(project, under, after, limit))
    }

    fn source_blobs(&self, project: ProjectId) -> Read<'_, Vec<BlobId>> {
        self.ask(self.inner.source_blobs(project))
    }

    fn source_list(&self, project: ProjectId) -> Read<'_, Vec<SourceEntry>> {
        self.ask(self.inner.source_list(project))
    }

    fn build_fetch(&self, project: ProjectId, number: u32) -> Read<'_, Option<Build>> {
        self.ask(self.inner.build_fetch(project, number))
    }

    fn builds_list(&self, project: ProjectId) -> Read<'_, Vec<Build>> {
        self.ask(self.inner.builds_list(project))
    }

    fn builds_of_workspace(&self, workspace: WorkspaceId) -> Read<'_, Vec<Build>> {
        self.ask(self.inner.builds_of_workspace(workspace))
    }

    fn builds_unended<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Build>> {
        self.ask(self.inner.builds_unended(node))
    }

    fn layer_by_key<'a>(&'a self, workspace: WorkspaceId, node: &'a str, key: BlobId) -> Read<'a, Option<Layer>> {
        self.ask(self.inner.layer_by_key(workspace, node, key))
    }

    fn layers_list<'a>(&'a self, workspace: WorkspaceId, node: &'a str) -> Read<'a, Vec<Layer>> {
        self.ask(self.inner.layers_list(workspace, node))
    }

    fn layers_fetch<'a>(&'a self, ids: &'a [LayerId]) -> Read<'a, Vec<Layer>> {
        self.ask(self.inner.layers_fetch(ids))
    }

    fn agent_fetch(&self, workspace: WorkspaceId, id: AgentId) -> Read<'_, Option<Agent>> {
        self.ask(self.inner.agent_fetch(workspace, id))
    }

    fn agents_list(&self, workspace: WorkspaceId) -> Read<'_, Vec<Agent>> {
        self.ask(self.inner.agents_list(workspace))
    }

    fn agents_of_project(&self, workspace: WorkspaceId, project: ProjectId) -> Read<'_, Vec<Agent>> {
        self.ask(self.inner.agents_of_project(workspace, project))
    }

    fn session_fetch(&self, workspace: WorkspaceId, id: SessionId) -> Read<'_, Option<Session>> {
        self.ask(self.inner.session_fetch(workspace, id))
    }

    fn sessions_list(&self, workspace: WorkspaceId, filter: SessionFilter) -> Read<'_, Page<Session>> {
        self.ask(self.inner.sessions_list(workspace, filter))
    }

    fn sessions_deleted<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Session>> {
        self.ask(self.inner.sessions_deleted(node))
    }

    fn turn_fetch(&self, workspace: WorkspaceId, id: TurnId) -> Read<'_, Option<Turn>> {
        self.ask(self.inner.turn_fetch(workspace, id))
    }

    fn turns_list(&self, session: SessionId) -> Read<'_, Vec<Turn>> {
        self.ask(self.inner.turns_list(session))
    }

    fn turns_unended<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Turn>> {
        self.ask(self.inner.turns_unended(node))
    }

    fn events_after(&self, session: SessionId, after: i64, limit: usize) -> Read<'_, Vec<Event>> {
        self.ask(self.inner.events_after(session, after, limit))
    }

    fn pins_held(&self, workspace: WorkspaceId) -> Read<'_, Vec<Pin>> {
        self.ask(self.inner.pins_held(workspace))
    }

    fn attachments_of(&self, session: SessionId) -> Read<'_, Vec<Attachment>> {
        self.ask(self.inner.attachments_of(session))
    }

    fn environment_fetch(&self, id: EnvironmentId) -> Read<'_, Option<Environment>> {
        self.ask(self.inner.environment_fetch(id))
    }

    fn environments_on<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Environment>> {
        self.ask(self.inner.environments_on(node))
    }

    fn operation_fetch(&self, id: OperationId) -> Read<'_, Option<Operation>> {
        self.ask(self.inner.operation_fetch(id))
    }

    fn operations_unended<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Operation>> {
        self.ask(self.inner.operations_unended(node))
    }

    fn upload_fetch(&self, workspace: WorkspaceId, id: FileId) -> Read<'_, Option<Upload>> {
        self.ask(self.inner.upload_fetch(workspace, id))
    }

    fn uploads_unused(&self, workspace: WorkspaceId, before: Timestamp) -> Read<'_, Vec<Upload>> {
        self.ask(self.inner.uploads_unused(workspace, before))
    }

    fn artifacts_of(&self, session: SessionId) -> Read<'_, Vec<Artifact>> {
        self.ask(self.inner.artifacts_of(session))
    }

    fn artifact_fetch(&self, workspace: WorkspaceId, id: FileId) -> Read<'_, Option<Artifact>> {
        self.ask(self.inner.artifact_fetch(workspace, id))
    }

    fn blobs_of_files(&self, workspace: WorkspaceId) -> Read<'_, Vec<BlobId>> {
        self.ask(self.inner.blobs_of_files(workspace))
    }

    fn audit_list(
        &self,
        workspace: Option<WorkspaceId>,
        before: Option<AuditId>,
        limit: usize,
    ) -> Read<'_, Page<AuditEntry>> {
        self.ask(self.inner.audit_list(workspace, before, limit))
    }

    fn census<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Tally>> {
        self.ask(self.inner.census(node))
    }

    fn idempotency_fetch<'a>(&'a self, scope: &'a IdempotencyScope) -> Read<'a, Option<IdempotencyRecord>> {
        self.ask(self.inner.idempotency_fetch(scope))
    }
}
