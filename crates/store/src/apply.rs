//! Carries out one commit's changes on the writing connection, within whatever transaction is open.
//!
//! Order: rows, facts, source edits, events, removals. A statement that concerns fewer rows than it names has met a newer
//! row or a taken name, which makes the whole commit a conflict.

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};
use stead_domain::changes::{Changes, Fact, Removal, Row, RowChange};
use stead_domain::event::Event;
use stead_domain::source::SourceEdit;
use stead_domain::{ProjectId, SourcePath};

use crate::columns::{Columns, RowError, values};
use crate::driver::{Connection, Value};
use crate::rows::{agent, audit, build, event, idempotency, layer, operation, project, session, source, upload};
use crate::table::{Stored, Versioned};

/// Rows per statement of those that take many. More would save PostgreSQL some round trips, but where places have numbers
/// SQLite looks each of them up, which costs the square of how many there are.
pub(crate) const CHUNK: usize = 100;

/// Why a commit's changes were not carried out.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A newer row or a taken name, in this table.
    Conflict(&'static str),
    /// The database refused or was lost, or a value has no column form.
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl From<RowError> for Refusal {
    fn from(error: RowError) -> Self {
        Self::Failed(Box::new(error))
    }
}

/// PostgreSQL's word for a transaction that it ended because of others that ran beside it.
const BESIDE_OTHERS: [&str; 2] = ["40001", "40P01"];

fn refusal(table: &'static str, error: sqlx::Error) -> Refusal {
    let conflict = error.as_database_error().is_some_and(|error| {
        error.is_unique_violation() || error.code().is_some_and(|code| BESIDE_OTHERS.contains(&code.as_ref()))
    });
    if conflict { Refusal::Conflict(table) } else { Refusal::Failed(Box::new(error)) }
}

/// Carries out `changes` and says how many rows its removals found. On a refusal some of them may have been carried out: the caller
/// rolls back.
pub(crate) async fn apply(connection: &mut Connection, changes: &Changes) -> Result<u64, Refusal> {
    for change in &changes.rows {
        match change {
            RowChange::Insert(row) => insert_row(connection, row).await?,
            RowChange::Update(row) => update_row(connection, row).await?,
        }
    }
    for fact in &changes.facts {
        insert_fact(connection, fact).await?;
    }
    for (project, edit) in &changes.sources {
        edit_source(connection, *project, edit).await?;
    }
    append(connection, &changes.events).await?;
    let mut removed = 0;
    for removal in &changes.removals {
        removed += remove(connection, removal).await?;
    }
    Ok(removed)
}

/// A statement that concerns exactly one row.
async fn one(
    connection: &mut Connection,
    table: &'static str,
    sql: &'static str,
    values: Vec<Value>,
) -> Result<(), Refusal> {
    match connection.execute(SqlStr::from_static(sql), values, true).await {
        Ok(1) => Ok(()),
        Ok(_) => Err(Refusal::Conflict(table)),
        Err(error) => Err(refusal(table, error)),
    }
}

/// A statement that concerns as many rows as it finds, and says how many.
async fn any(
    connection: &mut Connection,
    table: &'static str,
    sql: &'static str,
    values: Vec<Value>,
) -> Result<u64, Refusal> {
    let done = connection.execute(SqlStr::from_static(sql), values, true).await;
    done.map_err(|error| refusal(table, error))
}

async fn insert<T: Stored>(connection: &mut Connection, row: &T) -> Result<(), Refusal> {
    one(connection, T::TABLE, T::INSERT, row.values()?).await
}

async fn update<T: Versioned>(connection: &mut Connection, row: &T) -> Result<(), Refusal> {
    one(connection, T::TABLE, T::UPDATE, row.values()?).await
}

macro_rules! each_row {
    ($row:expr, $bound:ident => $work:expr) => {
        match $row {
            Row::Agent($bound) => $work,
            Row::Attachment($bound) => $work,
            Row::Build($bound) => $work,
            Row::Environment($bound) => $work,
            Row::Key($bound) => $work,
            Row::Operation($bound) => $work,
            Row::Project($bound) => $work,
            Row::Session($bound) => $work,
            Row::Turn($bound) => $work,
        }
    };
}

async fn insert_row(connection: &mut Connection, row: &Row) -> Result<(), Refusal> {
    each_row!(row, row => insert(connection, row).await)
}

async fn update_row(connection: &mut Connection, row: &Row) -> Result<(), Refusal> {
    each_row!(row, row => update(connection, row).await)
}

async fn insert_fact(connection: &mut Connection, fact: &Fact) -> Result<(), Refusal> {
    match fact {
        Fact::Artifact(artifact) => insert(connection, artifact).await,
        Fact::Audit(entry) => insert(connection, entry).await,
        Fact::Idempotency(record) => {
            let values = idempotency::record_values(record)?;
            one(connection, idempotency::TABLE, idempotency::INSERT, values).await
        }
        Fact::Layer(layer) => insert(connection, layer).await,
        Fact::Upload(upload) => insert(connection, upload).await,
        Fact::Workspace(workspace) => insert(connection, workspace).await,
    }
}

/// `($3, $4), ($5, $6)` for two rows of two values whose numbers begin at three.
pub(crate) fn tuples(rows: usize, width: usize, first: usize) -> String {
    let mut text = String::with_capacity(rows * width * 7);
    for row in 0..rows {
        text.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..width {
            if column > 0 {
                text.push_str(", ");
            }
            text.push('$');
            text.push_str(&(first + row * width + column).to_string());
        }
        text.push(')');
    }
    text
}

/// Tuples whose values are all that a statement has. SQLite finds a numbered place by its name, which costs the square of
/// their number; one without a number is just the next.
fn all_tuples(connection: &Connection, rows: usize, width: usize) -> String {
    let Connection::Sqlite(_) = connection else { return tuples(rows, width, 1) };
    let tuple = format!("({})", vec!["?"; width].join(", "));
    vec![tuple; rows].join(", ")
}

/// Carries out a statement over many rows. Full chunks all have the same text, which is worth keeping prepared.
async fn many(
    connection: &mut Connection,
    table: &'static str,
    sql: String,
    values: Vec<Value>,
    rows: usize,
) -> Result<u64, Refusal> {
    let done = connection.execute(AssertSqlSafe(sql).into_sql_str(), values, rows == CHUNK).await;
    done.map_err(|error| refusal(table, error))
}

async fn append(connection: &mut Connection, events: &[Event]) -> Result<(), Refusal> {
    // One or two are the usual case, and their statement is prepared.
    if events.len() <= 2 {
        for event in events {
            insert(connection, event).await?;
        }
        return Ok(());
    }
    for chunk in events.chunks(CHUNK) {
        let mut values = Vec::with_capacity(chunk.len() * event::WIDTH);
        for event in chunk {
            values.extend(event.values()?);
        }
        let sql =
            event::INSERT_MANY.to_owned() + &all_tuples(connection, chunk.len(), event::WIDTH) + event::UNLESS_TAKEN;
        if many(connection, Event::TABLE, sql, values, chunk.len()).await? != chunk.len() as u64 {
            return Err(Refusal::Conflict(Event::TABLE));
        }
    }
    Ok(())
}

async fn edit_source(connection: &mut Connection, project: ProjectId, edit: &SourceEdit) -> Result<(), Refusal> {
    const TABLE: &str = "source_entries";
    if edit.clear {
        any(connection, TABLE, source::CLEAR, values![project]?).await?;
    }
    for chunk in edit.removed.chunks(CHUNK) {
        let values = project_and_paths(project, chunk)?;
        let sql = source::REMOVE_AMONG.to_owned() + &tuples(1, chunk.len(), 2);
        many(connection, TABLE, sql, values, chunk.len()).await?;
    }
    for chunk in source::written(&edit.written).chunks(CHUNK) {
        let mut values = Vec::with_capacity(chunk.len() * source::WIDTH);
        for entry in chunk {
            source::write(project, entry, &mut values)?;
        }
        let sql =
            source::WRITE_MANY.to_owned() + &all_tuples(connection, chunk.len(), source::WIDTH) + source::REPLACING;
        many(connection, TABLE, sql, values, chunk.len()).await?;
    }
    Ok(())
}

/// The values of a statement about some paths of a project.
pub(crate) fn project_and_paths(project: ProjectId, paths: &[SourcePath]) -> Result<Vec<Value>, RowError> {
    let mut values = values![project]?;
    for path in paths {
        path.write(&mut values)?;
    }
    Ok(values)
}

async fn remove(connection: &mut Connection, removal: &Removal) -> Result<u64, Refusal> {
    const BATCH: u64 = Removal::BATCH;
    let (table, sql, values) = match removal {
        Removal::Agents(before) => ("agents", agent::REMOVE_DELETED, values![*before, BATCH]),
        Removal::Audit(before) => ("audit_entries", audit::REMOVE_BEFORE, values![*before, BATCH]),
        Removal::Build(project, number) => ("builds", build::REMOVE, values![*project, *number]),
        Removal::Deltas(turn) => (Event::TABLE, event::REMOVE_DELTAS, values![*turn]),
        Removal::Events(session) => (Event::TABLE, event::REMOVE_SOME, values![*session, BATCH]),
        Removal::Layer(layer) => ("layers", layer::REMOVE, values![*layer]),
        Removal::Operations(before) => ("operations", operation::REMOVE_ENDED, values![*before, BATCH]),
        Removal::Project(id) => ("projects", project::REMOVE, values![*id]),
        Removal::Session(id) => {
            let mut removed = 0;
            for sql in session::REMOVE {
                removed += any(connection, "sessions", sql, values![*id]?).await?;
            }
            return Ok(removed);
        }
        Removal::Source(project) => ("source_entries", source::REMOVE_SOME, values![*project, BATCH]),
        Removal::Upload(upload) => ("uploads", upload::REMOVE, values![*upload]),
    };
    any(connection, table, sql, values?).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_number_their_values_on() {
        assert_eq!(tuples(2, 2, 3), "($3, $4), ($5, $6)");
        assert_eq!(tuples(1, 3, 2), "($2, $3, $4)");
    }
}
