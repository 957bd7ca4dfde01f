//! How a value becomes columns, and columns become a value again. Reading validates: what the domain would not write is an
//! error that names the column.

mod composite;
mod scalar;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row as _;

use crate::driver::{RawRow, Value};

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a row cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RowError {
    /// The column does not hold what it must.
    #[error("column `{column}` does not hold what it must")]
    Column {
        /// Its name.
        column: String,
        /// What is wrong with it.
        #[source]
        source: Cause,
    },
    /// A value has no form as a column.
    #[error("a value cannot be kept in a column")]
    Write(#[source] Cause),
}

/// A text that is none of the words it may be.
#[derive(Debug, thiserror::Error)]
#[error("unknown word `{0}`")]
pub(crate) struct UnknownWord(pub(crate) String);

/// A column is null that may not be, or of another type.
#[derive(Debug, thiserror::Error)]
#[error("it is null")]
pub(crate) struct Null;

/// Something that is one column.
pub(crate) trait Column: Sized {
    /// Its null, which also says of which type the column is.
    const NULL: Value;
    /// As it is kept.
    fn to_value(&self) -> Result<Value, Cause>;
    /// As it was kept.
    fn from_value(value: Value) -> Result<Self, Cause>;
}

/// Something that is one or several neighbouring columns.
pub(crate) trait Columns: Sized {
    /// Appends its values.
    fn write(&self, values: &mut Vec<Value>) -> Result<(), RowError>;
    /// Takes its values, in the same order.
    fn read(reader: &mut Reader<'_>) -> Result<Self, RowError>;
}

impl<T: Column> Columns for T {
    fn write(&self, values: &mut Vec<Value>) -> Result<(), RowError> {
        values.push(self.to_value().map_err(RowError::Write)?);
        Ok(())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, RowError> {
        reader.take()
    }
}

/// Takes the columns of a row one after the other.
pub(crate) struct Reader<'r> {
    row: &'r RawRow,
    next: usize,
}

impl<'r> Reader<'r> {
    /// From the first column on.
    pub(crate) fn new(row: &'r RawRow) -> Self {
        Self { row, next: 0 }
    }

    /// From a later column on, for the second noun of a joined row.
    pub(crate) fn skipping(row: &'r RawRow, columns: usize) -> Self {
        Self { row, next: columns }
    }

    /// How many columns were taken.
    pub(crate) fn taken(&self) -> usize {
        self.next
    }

    /// The next column.
    pub(crate) fn take<T: Column>(&mut self) -> Result<T, RowError> {
        let at = self.next;
        self.next += 1;
        let raw = match (self.row, T::NULL) {
            (RawRow::Sqlite(row), Value::Text(_)) => row.try_get(at).map(Value::Text),
            (RawRow::Sqlite(row), Value::Int(_)) => row.try_get(at).map(Value::Int),
            (RawRow::Postgres(row), Value::Text(_)) => row.try_get(at).map(Value::Text),
            (RawRow::Postgres(row), Value::Int(_)) => row.try_get(at).map(Value::Int),
        };
        raw.map_err(Cause::from).and_then(T::from_value).map_err(|source| self.fault(at, source))
    }

    /// An error about the column that was taken last.
    pub(crate) fn refuse(&self, source: impl Into<Cause>) -> RowError {
        self.fault(self.next.saturating_sub(1), source.into())
    }

    fn fault(&self, at: usize, source: Cause) -> RowError {
        let name = match self.row {
            RawRow::Sqlite(row) => row.columns().get(at).map(sqlx::Column::name),
            RawRow::Postgres(row) => row.columns().get(at).map(sqlx::Column::name),
        };
        RowError::Column { column: name.unwrap_or("(missing)").to_owned(), source }
    }
}

/// A text as a column. PostgreSQL's TEXT holds no NUL character, so both engines keep the replacement character for it.
pub(crate) fn text(text: &str) -> Value {
    Value::Text(Some(if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text.to_owned() }))
}

pub(crate) fn from_text(value: Value) -> Result<String, Cause> {
    match value {
        Value::Text(Some(text)) => Ok(text),
        _ => Err(Null.into()),
    }
}

pub(crate) fn from_int(value: Value) -> Result<i64, Cause> {
    match value {
        Value::Int(Some(number)) => Ok(number),
        _ => Err(Null.into()),
    }
}

pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<Value, Cause> {
    Ok(Value::Text(Some(serde_json::to_string(value)?)))
}

pub(crate) fn from_json<T: DeserializeOwned>(value: Value) -> Result<T, Cause> {
    Ok(serde_json::from_str(&from_text(value)?)?)
}

/// The values of a statement, gathered in the order of their numbers.
pub(crate) struct Values(Result<Vec<Value>, RowError>);

impl Values {
    pub(crate) fn new() -> Self {
        Self(Ok(Vec::new()))
    }

    pub(crate) fn with(self, value: &impl Columns) -> Self {
        Self(self.0.and_then(|mut values| value.write(&mut values).map(|()| values)))
    }

    pub(crate) fn done(self) -> Result<Vec<Value>, RowError> {
        self.0
    }
}

/// Gathers values of any kinds.
macro_rules! values {
    ($($value:expr),* $(,)?) => { $crate::columns::Values::new()$(.with(&$value))*.done() };
}
pub(crate) use values;
