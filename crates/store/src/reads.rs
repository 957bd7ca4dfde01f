//! The port: one statement per question.

use std::collections::HashSet;

use sqlx::SqlStr;
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
use stead_domain::turn::{Turn, TurnInput};
use stead_domain::workspace::Workspace;
use stead_domain::{
    AgentId, AuditId, BlobId, EnvironmentId, FileId, LayerId, OperationId, ProjectId, SessionId, Slug, SourcePath,
    Timestamp, TurnId, WorkspaceId,
};

use crate::apply::{CHUNK, project_and_paths, tuples};
use crate::columns::{Reader, RowError, Values, values};
use crate::driver::RawRow;
use crate::rows::{
    agent, artifact, attachment, audit, build, census, environment, event, idempotency, key, layer, operation, project,
    session, source, turn, upload, workspace,
};
use crate::store::SqlStore;
use crate::table::Stored;

/// One more than asked for tells whether others follow.
fn one_more(limit: usize) -> usize {
    limit.saturating_add(1).min(i64::MAX as usize)
}

type Read<'a, T> = PortFuture<'a, Result<T, StoreError>>;

/// A project's columns, then its latest build's, all null where there is none.
fn project_and_build(row: &RawRow) -> Result<(Project, Option<Build>), RowError> {
    let mut reader = Reader::new(row);
    let project = Project::read(&mut reader)?;
    let there: Option<ProjectId> = Reader::skipping(row, reader.taken()).take()?;
    let build = there.map(|_| Build::read(&mut reader)).transpose()?;
    Ok((project, build))
}

impl SqlStore {
    /// The blobs that the inputs of turns name, which are inside of a JSON column.
    async fn blobs_of_inputs(&self, workspace: WorkspaceId) -> Result<Vec<BlobId>, StoreError> {
        let sql = SqlStr::from_static(turn::INPUTS_WITH_FILES);
        let given = |row: &RawRow| Reader::new(row).take::<TurnInput>();
        let inputs = self.map("list the inputs of turns", sql, values![workspace], given).await?;
        Ok(inputs.iter().flat_map(|input| &input.files).map(|file| file.blob).collect())
    }
}

impl Store for SqlStore {
    fn commit(&self, changes: Changes) -> PortFuture<'_, Result<Committed, CommitError>> {
        Box::pin(self.inbox.commit(changes))
    }

    fn now(&self) -> Read<'_, Timestamp> {
        Box::pin(self.database_clock())
    }

    fn workspaces_list(&self) -> Read<'_, Vec<Workspace>> {
        Box::pin(self.all("list workspaces", workspace::LIST, values![]))
    }

    fn workspace_first(&self) -> Read<'_, Option<Workspace>> {
        Box::pin(self.one("read the first workspace", workspace::FIRST, values![]))
    }

    fn key_by_digest<'a>(&'a self, digest: &'a SecretDigest) -> Read<'a, Option<Key>> {
        Box::pin(self.one("look up a key", key::BY_DIGEST, values![*digest]))
    }

    fn keys_list(&self, workspace: WorkspaceId) -> Read<'_, Vec<Key>> {
        Box::pin(self.all("list keys", key::LIST, values![workspace]))
    }

    fn project_fetch(&self, workspace: WorkspaceId, id: ProjectId) -> Read<'_, Option<Project>> {
        Box::pin(self.one("read a project", project::FETCH, values![workspace, id]))
    }

    fn project_by_slug<'a>(&'a self, workspace: WorkspaceId, slug: &'a Slug) -> Read<'a, Option<Project>> {
        Box::pin(self.one("look up a project", project::BY_SLUG, values![workspace, *slug]))
    }

    fn projects_list(&self, workspace: WorkspaceId) -> Read<'_, Vec<(Project, Option<Build>)>> {
        let sql = SqlStr::from_static(project::LIST);
        Box::pin(self.map("list projects", sql, values![workspace], project_and_build))
    }

    fn projects_deleted<'a>(&'a self, node: &'a str, limit: usize) -> Read<'a, Vec<Project>> {
        let limit = limit.min(i64::MAX as usize);
        Box::pin(self.all("list deleted projects", project::DELETED, values![node.to_owned(), limit]))
    }

    fn source_at<'a>(&'a self, project: ProjectId, paths: &'a [SourcePath]) -> Read<'a, Vec<SourceEntry>> {
        Box::pin(async move {
            let mut entries = Vec::with_capacity(paths.len());
            for chunk in paths.chunks(CHUNK) {
                let sql = source::AMONG.to_owned() + &tuples(1, chunk.len(), 2);
                let values = project_and_paths(project, chunk);
                let read = |row: &RawRow| source::read(&mut Reader::new(row));
                entries.extend(self.among("read source entries", sql, values, read).await?);
            }
            Ok(entries)
        })
    }

    fn source_subtree<'a>(&'a self, project: ProjectId, path: &'a SourcePath) -> Read<'a, Vec<SourceEntry>> {
        let sql = SqlStr::from_static(source::SUBTREE);
        let read = |row: &RawRow| source::read(&mut Reader::new(row));
        Box::pin(self.map("read a source tree", sql, values![project, *path], read))
    }

    fn source_page<'a>(
        &'a self,
        project: ProjectId,
        under: Option<&'a SourcePath>,
        after: Option<&'a SourcePath>,
        limit: usize,
    ) -> Read<'a, Page<SourceEntry>> {
        Box::pin(async move {
            let after = after.map_or_else(String::new, ToString::to_string);
            // One more than asked for tells whether others follow.
            let one_more = limit.saturating_add(1).min(i64::MAX as usize);
            let read = |row: &RawRow| source::read(&mut Reader::new(row));
            let mut rows = match under {
                None => {
                    let sql = SqlStr::from_static(source::PAGE);
                    self.map("read a part of a source", sql, values![project, after, one_more], read).await?
                }
                Some(directory) => {
                    // What lies beneath begins with a slash behind the path, and `0` is the byte after the slash.
                    let (begin, end) = (format!("{directory}/"), format!("{directory}0"));
                    let values = values![project, after.max(begin), one_more, end];
                    let sql = SqlStr::from_static(source::PAGE_BENEATH);
                    self.map("read a part of a source tree", sql, values, read).await?
                }
            };
            let more = rows.len() > limit;
            rows.truncate(limit);
            Ok(Page { rows, more })
        })
    }

    fn source_blobs(&self, project: ProjectId) -> Read<'_, Vec<BlobId>> {
        let sql = SqlStr::from_static(source::BLOBS);
        Box::pin(self.map("list a source's blobs", sql, values![project], |row| Reader::new(row).take()))
    }

    fn source_list(&self, project: ProjectId) -> Read<'_, Vec<SourceEntry>> {
        let sql = SqlStr::from_static(source::LIST);
        let read = |row: &RawRow| source::read(&mut Reader::new(row));
        Box::pin(self.map("read a source", sql, values![project], read))
    }

    fn build_fetch(&self, project: ProjectId, number: u32) -> Read<'_, Option<Build>> {
        Box::pin(self.one("read a build", build::FETCH, values![project, number]))
    }

    fn builds_list(&self, project: ProjectId) -> Read<'_, Vec<Build>> {
        Box::pin(self.all("list builds", build::LIST, values![project]))
    }

    fn builds_of_workspace(&self, workspace: WorkspaceId) -> Read<'_, Vec<Build>> {
        Box::pin(self.all("list a workspace's builds", build::OF_WORKSPACE, values![workspace]))
    }

    fn builds_unended<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Build>> {
        Box::pin(self.all("list unended builds", build::UNENDED, values![node.to_owned()]))
    }

    fn layer_by_key<'a>(&'a self, workspace: WorkspaceId, node: &'a str, key: BlobId) -> Read<'a, Option<Layer>> {
        Box::pin(self.one("look up a layer", layer::BY_KEY, values![workspace, node.to_owned(), key]))
    }

    fn layers_list<'a>(&'a self, workspace: WorkspaceId, node: &'a str) -> Read<'a, Vec<Layer>> {
        Box::pin(self.all("list layers", layer::LIST, values![workspace, node.to_owned()]))
    }

    fn layers_fetch<'a>(&'a self, ids: &'a [LayerId]) -> Read<'a, Vec<Layer>> {
        Box::pin(async move {
            let mut layers = Vec::with_capacity(ids.len());
            for chunk in ids.chunks(CHUNK) {
                let sql = layer::AMONG.to_owned() + &tuples(1, chunk.len(), 1);
                let values = chunk.iter().fold(Values::new(), Values::with).done();
                let read = |row: &RawRow| Layer::read(&mut Reader::new(row));
                layers.extend(self.among("read layers", sql, values, read).await?);
            }
            Ok(layers)
        })
    }

    fn agent_fetch(&self, workspace: WorkspaceId, id: AgentId) -> Read<'_, Option<Agent>> {
        Box::pin(self.one("read an agent", agent::FETCH, values![workspace, id]))
    }

    fn agents_list(&self, workspace: WorkspaceId) -> Read<'_, Vec<Agent>> {
        Box::pin(self.all("list agents", agent::LIST, values![workspace]))
    }

    fn agents_of_project(&self, workspace: WorkspaceId, project: ProjectId) -> Read<'_, Vec<Agent>> {
        Box::pin(self.all("list a project's agents", agent::OF_PROJECT, values![workspace, project]))
    }

    fn session_fetch(&self, workspace: WorkspaceId, id: SessionId) -> Read<'_, Option<Session>> {
        Box::pin(self.one("read a session", session::FETCH, values![workspace, id]))
    }

    fn sessions_list(&self, workspace: WorkspaceId, filter: SessionFilter) -> Read<'_, Page<Session>> {
        Box::pin(async move {
            let before = filter.before.map_or_else(|| session::NEWEST.to_owned(), |id| id.to_string());
            let limit = one_more(filter.limit);
            let mut rows: Vec<Session> = match filter.agent_id {
                None => self.all("list sessions", session::LIST, values![workspace, before, limit]).await?,
                Some(agent) => {
                    let values = values![workspace, before, limit, agent];
                    self.all("list an agent's sessions", session::LIST_OF_AGENT, values).await?
                }
            };
            let more = rows.len() > filter.limit;
            rows.truncate(filter.limit);
            Ok(Page { rows, more })
        })
    }

    fn audit_list(
        &self,
        workspace: Option<WorkspaceId>,
        before: Option<AuditId>,
        limit: usize,
    ) -> Read<'_, Page<AuditEntry>> {
        Box::pin(async move {
            let before = before.map_or_else(|| audit::NEWEST.to_owned(), |id| id.to_string());
            let mut rows: Vec<AuditEntry> = match workspace {
                None => self.all("list the audit log", audit::LIST, values![before, one_more(limit)]).await?,
                Some(workspace) => {
                    let values = values![before, one_more(limit), workspace];
                    self.all("list a workspace's audit log", audit::LIST_OF_WORKSPACE, values).await?
                }
            };
            let more = rows.len() > limit;
            rows.truncate(limit);
            Ok(Page { rows, more })
        })
    }

    fn census<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Tally>> {
        Box::pin(async move {
            let read = |row: &RawRow| {
                let mut reader = Reader::new(row);
                Ok(Tally { noun: reader.take()?, state: reader.take()?, count: reader.take()? })
            };
            self.map("count what lives", SqlStr::from_static(census::COUNT), values![node.to_owned()], read).await
        })
    }

    fn sessions_deleted<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Session>> {
        Box::pin(self.all("list deleted sessions", session::DELETED, values![node.to_owned()]))
    }

    fn turn_fetch(&self, workspace: WorkspaceId, id: TurnId) -> Read<'_, Option<Turn>> {
        Box::pin(self.one("read a turn", turn::FETCH, values![workspace, id]))
    }

    fn turns_list(&self, session: SessionId) -> Read<'_, Vec<Turn>> {
        Box::pin(self.all("list turns", turn::LIST, values![session]))
    }

    fn turns_unended<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Turn>> {
        Box::pin(self.all("list unended turns", turn::UNENDED, values![node.to_owned()]))
    }

    fn events_after(&self, session: SessionId, after: i64, limit: usize) -> Read<'_, Vec<Event>> {
        let limit = limit.min(i64::MAX as usize);
        Box::pin(self.all("read events", event::AFTER, values![session, after, limit]))
    }

    fn pins_held(&self, workspace: WorkspaceId) -> Read<'_, Vec<Pin>> {
        Box::pin(async move {
            let sql = SqlStr::from_static(attachment::PINS);
            let read = |row: &RawRow| Reader::new(row).take::<Vec<Pin>>();
            let pins = self.map("list pins", sql, values![workspace], read).await?;
            Ok(pins.into_iter().flatten().collect())
        })
    }

    fn attachments_of(&self, session: SessionId) -> Read<'_, Vec<Attachment>> {
        Box::pin(self.all("list attachments", attachment::OF_SESSION, values![session]))
    }

    fn environment_fetch(&self, id: EnvironmentId) -> Read<'_, Option<Environment>> {
        Box::pin(self.one("read an environment", environment::FETCH, values![id]))
    }

    fn environments_on<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Environment>> {
        Box::pin(self.all("list environments", environment::ON, values![node.to_owned()]))
    }

    fn operation_fetch(&self, id: OperationId) -> Read<'_, Option<Operation>> {
        Box::pin(self.one("read an operation", operation::FETCH, values![id]))
    }

    fn operations_unended<'a>(&'a self, node: &'a str) -> Read<'a, Vec<Operation>> {
        Box::pin(self.all("list unended operations", operation::UNENDED, values![node.to_owned()]))
    }

    fn upload_fetch(&self, workspace: WorkspaceId, id: FileId) -> Read<'_, Option<Upload>> {
        Box::pin(self.one("read an upload", upload::FETCH, values![workspace, id]))
    }

    fn uploads_unused(&self, workspace: WorkspaceId, before: Timestamp) -> Read<'_, Vec<Upload>> {
        Box::pin(async move {
            let mut uploads: Vec<Upload> =
                self.all("list old uploads", upload::BEFORE, values![workspace, before]).await?;
            if !uploads.is_empty() {
                let used: HashSet<BlobId> = self.blobs_of_inputs(workspace).await?.into_iter().collect();
                uploads.retain(|upload| !used.contains(&upload.blob));
            }
            Ok(uploads)
        })
    }

    fn artifacts_of(&self, session: SessionId) -> Read<'_, Vec<Artifact>> {
        Box::pin(self.all("list artifacts", artifact::OF_SESSION, values![session]))
    }

    fn artifact_fetch(&self, workspace: WorkspaceId, id: FileId) -> Read<'_, Option<Artifact>> {
        Box::pin(self.one("read an artifact", artifact::FETCH, values![workspace, id]))
    }

    fn blobs_of_files(&self, workspace: WorkspaceId) -> Read<'_, Vec<BlobId>> {
        Box::pin(async move {
            let sql = SqlStr::from_static(upload::BLOBS);
            let kept = |row: &RawRow| Reader::new(row).take();
            let mut blobs: Vec<BlobId> = self.map("list the blobs of files", sql, values![workspace], kept).await?;
            blobs.extend(self.blobs_of_inputs(workspace).await?);
            Ok(blobs)
        })
    }

    fn idempotency_fetch<'a>(&'a self, scope: &'a IdempotencyScope) -> Read<'a, Option<IdempotencyRecord>> {
        Box::pin(async move {
            let sql = SqlStr::from_static(idempotency::FETCH);
            let read = |row: &RawRow| idempotency::read(scope, &mut Reader::new(row));
            let records = self.map("read a retry record", sql, idempotency::scope_values(scope), read).await?;
            Ok(records.into_iter().next())
        })
    }
}
