//! Who did what: one entry for each change that somebody asked for, part of the commit that makes the change.

use std::collections::BTreeSet;

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

/// Which entries are asked for: those that fit everything that is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Those of one of these keys.
    pub keys: Option<BTreeSet<KeyId>>,
    /// A part of the route, such as `DELETE` or `/build`.
    pub action: Option<String>,
    /// What was made, changed or removed, by any of the ids that a face has for it. A project's are its builds', too.
    pub target: Option<String>,
    /// The request.
    pub request_id: Option<String>,
    /// The first moment.
    pub since: Option<Timestamp>,
    /// The first moment that is too late.
    pub until: Option<Timestamp>,
}

/// What of an id is the same whatever prefix a face has for it, and what follows a `/`.
fn bare(id: &str) -> (&str, Option<&str>) {
    let (id, part) = id.split_once('/').map_or((id, None), |(id, part)| (id, Some(part)));
    let same = |part: &&str| part.len() == 32 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    (id.split(['_', '-']).find(same).unwrap_or(id), part)
}

impl AuditTarget {
    /// Whether it is what somebody calls `wanted`.
    fn is_called(&self, wanted: &str) -> bool {
        let ((id, part), (wanted, wanted_part)) = (bare(&self.id), bare(wanted));
        id == wanted && (wanted_part.is_none() || wanted_part == part)
    }
}

impl AuditFilter {
    /// Whether it asks for all there are.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an entry is one of those.
    pub fn fits(&self, entry: &AuditEntry) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.contains(&entry.key_id))
            && self.action.as_ref().is_none_or(|part| entry.action.contains(part.as_str()))
            && self.target.as_ref().is_none_or(|id| entry.targets.iter().any(|target| target.is_called(id)))
            && self.request_id.as_ref().is_none_or(|id| entry.request_id == *id)
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at < until)
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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn uuid(last: u8) -> Uuid {
        Uuid::from_u128(0x018f_3c2a_7b4c_7d3e_9f6a_5b4c_3d2e_1f00 + u128::from(last))
    }

    #[test]
    fn entries_are_found_by_the_names_that_clients_have() {
        let hex = |last: u8| uuid(last).simple().to_string();
        let entry = AuditEntry {
            id: AuditId::from_uuid(uuid(0)),
            at: Timestamp::from_micros(2_000_000),
            workspace_id: WorkspaceId::from_uuid(uuid(1)),
            key_id: KeyId::from_uuid(uuid(2)),
            request_id: "r-1".to_owned(),
            action: "POST /v1/responses".to_owned(),
            targets: vec![
                AuditTarget::new("turn", format!("turn_{}", hex(3))),
                AuditTarget::new("file", format!("file_{}", hex(4))),
                AuditTarget::new("build", format!("henv_{}/12", hex(5))),
            ],
        };
        let target = |id: String| AuditFilter { target: Some(id), ..AuditFilter::default() }.fits(&entry);
        for id in [
            format!("resp_{}", hex(3)),
            format!("turn_{}", hex(3)),
            hex(3),
            format!("msg_{}_1", hex(3)),
            format!("file-{}", hex(4)),
            format!("henv_{}", hex(5)),
            format!("henv_{}/12", hex(5)),
        ] {
            assert!(target(id.clone()), "{id}");
        }
        for id in
            [format!("resp_{}", hex(6)), format!("henv_{}/1", hex(5)), format!("resp_{}/12", hex(3)), String::new()]
        {
            assert!(!target(id.clone()), "{id}");
        }
        let fits = |change: fn(&mut AuditFilter)| {
            let mut filter = AuditFilter::default();
            assert!(filter.is_empty() && filter.fits(&entry));
            change(&mut filter);
            assert!(!filter.is_empty());
            filter.fits(&entry)
        };
        assert!(fits(|filter| filter.keys = Some(BTreeSet::from([KeyId::from_uuid(uuid(2))]))));
        assert!(!fits(|filter| filter.keys = Some(BTreeSet::new())));
        assert!(fits(|filter| filter.action = Some("responses".to_owned())));
        assert!(!fits(|filter| filter.action = Some("DELETE".to_owned())));
        assert!(fits(|filter| filter.request_id = Some("r-1".to_owned())));
        assert!(!fits(|filter| filter.request_id = Some("r".to_owned())));
        assert!(fits(|filter| filter.since = Some(Timestamp::from_micros(2_000_000))));
        assert!(!fits(|filter| filter.until = Some(Timestamp::from_micros(2_000_000))));
    }
}
