//! Who did what: one entry for each change that somebody asked for, part of the commit that makes the change.

use serde::{Deserialize, Serialize};

use crate::changes::{Changes, Fact, Removal, Row, RowChange};
use crate::ids::{AuditId, KeyId, WorkspaceId};
use crate::time::Timestamp;

/// Who acts, and in which request: what the rows of a change cannot tell by themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// The workspace of the key.
    pub workspace_id: WorkspaceId,
    /// The key.
    pub key_id: KeyId,
    /// The request's id, as its answer carries it and every log line of it.
    pub request_id: String,
    /// The route: a method and a path with the names of its parameters, such as `POST /v1/environments/{id}/build`.
    pub action: String,
}

/// A change that somebody asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its identity; entries sort by it as they were made.
    pub id: AuditId,
    /// When.
    pub at: Timestamp,
    /// The workspace of what was changed, which an operator need not belong to.
    pub workspace_id: WorkspaceId,
    /// The key that asked.
    pub key_id: KeyId,
    /// The request's id.
    pub request_id: String,
    /// The route.
    pub action: String,
    /// What was made, changed or removed.
    pub targets: Vec<AuditTarget>,
}

/// One thing that a change concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditTarget {
    /// The noun, such as `project`.
    pub kind: String,
    /// Its id; of a build, its project's id and its number.
    pub id: String,
}

impl AuditTarget {
    /// One thing.
    pub fn new(kind: &str, id: impl ToString) -> Self {
        Self { kind: kind.to_owned(), id: id.to_string() }
    }
}

impl Actor {
    /// The entry that says of `changes` that this actor asked for them. Its workspace is that of what is changed.
    pub fn entry(&self, id: AuditId, at: Timestamp, changes: &Changes) -> AuditEntry {
        AuditEntry {
            id,
            at,
            workspace_id: workspace(changes).unwrap_or(self.workspace_id),
            key_id: self.key_id,
            request_id: self.request_id.clone(),
            action: self.action.clone(),
            targets: targets(changes),
        }
    }
}

fn rows(changes: &Changes) -> impl Iterator<Item = &Row> {
    changes.rows.iter().map(|change| match change {
        RowChange::Insert(row) | RowChange::Update(row) => row,
    })
}

/// Whose objects are changed: a commit that somebody asks for stays within one workspace.
fn workspace(changes: &Changes) -> Option<WorkspaceId> {
    let made = changes.facts.iter().find_map(|fact| match fact {
        Fact::Workspace(workspace) => Some(workspace.id),
        Fact::Upload(upload) => Some(upload.workspace_id),
        _ => None,
    });
    made.or_else(|| {
        rows(changes).find_map(|row| match row {
            Row::Agent(row) => Some(row.workspace_id),
            Row::Build(row) => Some(row.workspace_id),
            Row::Environment(row) => Some(row.workspace_id),
            Row::Key(row) => Some(row.workspace_id),
            Row::Project(row) => Some(row.workspace_id),
            Row::Session(row) => Some(row.workspace_id),
            Row::Turn(row) => Some(row.workspace_id),
            Row::Attachment(_) | Row::Operation(_) => None,
        })
    })
}

/// The nouns that callers know, each once, in the order of the changes. Attachments, operations and events come with them.
fn targets(changes: &Changes) -> Vec<AuditTarget> {
    let of_facts = changes.facts.iter().filter_map(|fact| match fact {
        Fact::Workspace(workspace) => Some(AuditTarget::new("workspace", workspace.id)),
        Fact::Upload(upload) => Some(AuditTarget::new("file", upload.id)),
        Fact::Artifact(_) | Fact::Audit(_) | Fact::Idempotency(_) | Fact::Layer(_) => None,
    });
    let of_rows = rows(changes).filter_map(|row| match row {
        Row::Agent(agent) => Some(AuditTarget::new("agent", agent.id)),
        Row::Build(build) => Some(AuditTarget::new("build", format!("{}/{}", build.project_id, build.number))),
        Row::Environment(environment) => Some(AuditTarget::new("environment", environment.id)),
        Row::Key(key) => Some(AuditTarget::new("key", key.id)),
        Row::Project(project) => Some(AuditTarget::new("project", project.id)),
        Row::Session(session) => Some(AuditTarget::new("session", session.id)),
        Row::Turn(turn) => Some(AuditTarget::new("turn", turn.id)),
        Row::Attachment(_) | Row::Operation(_) => None,
    });
    let of_sources = changes.sources.iter().map(|(project, _)| AuditTarget::new("project", project));
    let of_removals = changes.removals.iter().filter_map(|removal| match removal {
        Removal::Session(id) => Some(AuditTarget::new("session", id)),
        Removal::Source(id) => Some(AuditTarget::new("project", id)),
        Removal::Upload(id) => Some(AuditTarget::new("file", id)),
        Removal::Agents(_)
        | Removal::Audit(_)
        | Removal::Build(..)
        | Removal::Deltas(_)
        | Removal::Events(_)
        | Removal::Layer(_)
        | Removal::Operations(_)
        | Removal::Project(_) => None,
    });
    let mut targets = Vec::new();
    for target in of_facts.chain(of_rows).chain(of_sources).chain(of_removals) {
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets
}
