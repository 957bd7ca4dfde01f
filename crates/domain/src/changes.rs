//! What a decision returns: everything one commit does, at once or not at all.

use crate::agent::Agent;
use crate::attachment::Attachment;
use crate::audit::AuditEntry;
use crate::build::{Build, Layer};
use crate::environment::Environment;
use crate::event::Event;
use crate::file::{Artifact, Upload};
use crate::idempotency::IdempotencyRecord;
use crate::ids::{FileId, LayerId, ProjectId, SessionId, TurnId};
use crate::key::Key;
use crate::operation::Operation;
use crate::project::Project;
use crate::session::Session;
use crate::source::SourceEdit;
use crate::time::Timestamp;
use crate::turn::Turn;
use crate::workspace::Workspace;

/// A row of any mutable noun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// A saved configuration.
    Agent(Agent),
    /// A session's use of an environment.
    Attachment(Attachment),
    /// A build, or the version it made.
    Build(Build),
    /// A computer.
    Environment(Environment),
    /// A key.
    Key(Key),
    /// An outside effect.
    Operation(Operation),
    /// A project.
    Project(Project),
    /// A conversation.
    Session(Session),
    /// A unit of work.
    Turn(Turn),
}

/// One change of one mutable row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowChange {
    /// A new row; its id must be free. Its `row_version` is stored as given.
    Insert(Row),
    /// The row as it shall be. `row_version` is the version that was read; the store raises it by one, and a row that has
    /// moved on makes the whole commit a conflict.
    Update(Row),
}

/// Rows that never change once they are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A file that a turn left.
    Artifact(Artifact),
    /// Who did it.
    Audit(AuditEntry),
    /// A retry identity; a scope that is taken makes the commit a conflict.
    Idempotency(IdempotencyRecord),
    /// A frozen layer. Several may have one key: the newest is taken.
    Layer(Layer),
    /// An uploaded file.
    Upload(Upload),
    /// A tenant.
    Workspace(Workspace),
}

/// Bulk removals, carried out after the row changes. What may be many rows goes [`Removal::BATCH`] at a time, so that no commit
/// holds up others for long: the same removal is committed again until it finds fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Some of the agents that were deleted before this and that no session names.
    Agents(Timestamp),
    /// Some of the entries of the audit log that are older than this, the oldest first.
    Audit(Timestamp),
    /// The record of a build of a deleted project.
    Build(ProjectId, u32),
    /// The deltas of a turn that its finished items replace.
    Deltas(TurnId),
    /// Some of the events of a deleted session, the oldest first.
    Events(SessionId),
    /// A layer that no version names.
    Layer(LayerId),
    /// Some of the operations that ended before this, those excepted that their environments still name.
    Operations(Timestamp),
    /// A deleted project, unless there is still a build of it or a part of its source.
    Project(ProjectId),
    /// Everything a deleted session left: events, artifacts, turns, attachments, retry records, deleted environments with their
    /// operations, and the session itself.
    Session(SessionId),
    /// Some of the source of a deleted project.
    Source(ProjectId),
    /// An upload that no task names.
    Upload(FileId),
}

impl Removal {
    /// The most rows that go at a time of what may be many.
    pub const BATCH: u64 = 1000;
}

/// Everything one commit does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Mutable rows.
    pub rows: Vec<RowChange>,
    /// Immutable rows.
    pub facts: Vec<Fact>,
    /// Edits of projects' sources.
    pub sources: Vec<(ProjectId, SourceEdit)>,
    /// Log entries.
    pub events: Vec<Event>,
    /// Bulk removals.
    pub removals: Vec<Removal>,
}

macro_rules! into_row {
    ($($noun:ident),*) => {$(
        impl From<$noun> for Row {
            fn from(row: $noun) -> Self {
                Row::$noun(row)
            }
        }
    )*};
}

macro_rules! into_fact {
    ($($noun:ident => $variant:ident),*) => {$(
        impl From<$noun> for Fact {
            fn from(fact: $noun) -> Self {
                Fact::$variant(fact)
            }
        }
    )*};
}

into_row!(Agent, Attachment, Build, Environment, Key, Operation, Project, Session, Turn);
into_fact!(Artifact => Artifact, AuditEntry => Audit, IdempotencyRecord => Idempotency, Layer => Layer, Upload => Upload, Workspace => Workspace);

impl Changes {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a new row.
    pub fn insert(mut self, row: impl Into<Row>) -> Self {
        self.rows.push(RowChange::Insert(row.into()));
        self
    }

    /// Adds a changed row.
    pub fn update(mut self, row: impl Into<Row>) -> Self {
        self.rows.push(RowChange::Update(row.into()));
        self
    }

    /// Adds an immutable row.
    pub fn fact(mut self, fact: impl Into<Fact>) -> Self {
        self.facts.push(fact.into());
        self
    }

    /// Adds an edit of a project's source.
    pub fn source(mut self, project: ProjectId, edit: SourceEdit) -> Self {
        self.sources.push((project, edit));
        self
    }

    /// Adds a log entry.
    pub fn event(mut self, event: Event) -> Self {
        self.events.push(event);
        self
    }

    /// Adds a bulk removal.
    pub fn remove(mut self, removal: Removal) -> Self {
        self.removals.push(removal);
        self
    }

    /// The sessions that the commit concerns, for waking those who wait on them.
    pub fn sessions(&self) -> Vec<SessionId> {
        let from_rows = self.rows.iter().filter_map(|change| match change {
            RowChange::Insert(Row::Session(session)) | RowChange::Update(Row::Session(session)) => Some(session.id),
            _ => None,
        });
        from_rows.chain(self.events.iter().map(|event| event.session_id)).collect()
    }
}
