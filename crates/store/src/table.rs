//! How a noun's table is declared: its columns once, in the order in which they are written and read.
//!
//! A value's number in a statement is its column's place in that list, so that one list of values serves the insert and the
//! update.

use crate::columns::{Reader, RowError};
use crate::driver::Value;

/// A noun with a table.
pub(crate) trait Stored: Sized {
    /// The table.
    const TABLE: &'static str;
    /// Adds a row; concerns none when a unique value is taken.
    const INSERT: &'static str;

    /// Its columns.
    fn values(&self) -> Result<Vec<Value>, RowError>;
    /// From its columns.
    fn read(reader: &mut Reader<'_>) -> Result<Self, RowError>;
}

/// A noun whose rows change under optimistic concurrency.
pub(crate) trait Versioned: Stored {
    /// Replaces the row of that identity and version, raising the version; concerns none when it has moved on.
    const UPDATE: &'static str;
}

/// Declares a table: `columns!` macro, table, identity, other columns, and the version's number when rows change.
macro_rules! table {
    ($columns:ident, $noun:ident in $table:literal { $($key:literal = $at:literal),+; $($column:literal = $place:literal),+; row_version = $version:literal }
        $($field:ident),+) => {
        macro_rules! $columns { () => { concat!($($key, ", ",)+ $($column, ", ",)+ "row_version") } }

        impl $crate::table::Versioned for $noun {
            const UPDATE: &'static str = concat!(
                "UPDATE ", $table, " SET ", $($column, " = ", $place, ", ",)+ "row_version = ", $version, " + 1 WHERE ",
                $($key, " = ", $at, " AND ",)+ "row_version = ", $version
            );
        }

        table!(@stored $noun, $table, $columns, concat!($($at, ", ",)+ $($place, ", ",)+ $version), $($field),+);
    };
    ($columns:ident, $noun:ident in $table:literal { $($key:literal = $at:literal),+; $($column:literal = $place:literal),+ }
        $($field:ident),+) => {
        macro_rules! $columns { () => { concat!($($key, ", ",)+ table!(@list $($column),+)) } }

        table!(@stored $noun, $table, $columns, concat!($($at, ", ",)+ table!(@list $($place),+)), $($field),+);
    };
    (@list $first:literal $(, $rest:literal)*) => { concat!($first $(, ", ", $rest)*) };
    (@stored $noun:ident, $table:literal, $columns:ident, $places:expr, $($field:ident),+) => {
        impl $crate::table::Stored for $noun {
            const TABLE: &'static str = $table;
            const INSERT: &'static str =
                concat!("INSERT INTO ", $table, " (", $columns!(), ") VALUES (", $places, ") ON CONFLICT DO NOTHING");

            fn values(&self) -> Result<Vec<$crate::driver::Value>, $crate::columns::RowError> {
                let mut values = Vec::new();
                $($crate::columns::Columns::write(&self.$field, &mut values)?;)+
                Ok(values)
            }

            fn read(reader: &mut $crate::columns::Reader<'_>) -> Result<Self, $crate::columns::RowError> {
                Ok(Self { $($field: $crate::columns::Columns::read(reader)?,)+ })
            }
        }
    };
}
pub(crate) use table;
