//! Brings a database up to this binary's schema: numbered files, one list per engine, embedded, forward only.

use include_dir::{Dir, include_dir};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{Connection as _, SqlSafeStr as _, SqlStr, SqliteConnection};

use crate::driver::Connection;

static SQLITE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/migrations/sqlite");
static POSTGRES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/migrations/postgres");

/// Why the store does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nobody answers, or the file cannot be opened.
    #[error("failed to connect to the database ({place})")]
    Connect {
        /// Where it should be.
        place: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A newer Stead wrote the database.
    #[error(
        "the database has schema {found}, but this server knows {newest} and older: run the server that wrote it, or a newer one"
    )]
    NewerSchema {
        /// The database's schema.
        found: i64,
        /// The newest this binary knows.
        newest: i64,
    },
    /// A migration failed, or one that ran is not the one of that number that this binary knows.
    #[error("failed to bring the database's schema up to date")]
    Migrate(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// `0001_initial.sql` is schema 1, "initial".
fn migrations(directory: &'static Dir<'static>) -> Vec<Migration> {
    let parse = |name: &'static str, sql: &'static str| {
        let (number, description) = name.strip_suffix(".sql")?.split_once('_')?;
        let sql: SqlStr = sql.into_sql_str();
        Some(Migration::new(number.parse().ok()?, description.into(), MigrationType::Simple, sql, false))
    };
    let files = directory.files();
    files.filter_map(|file| parse(file.path().file_name()?.to_str()?, file.contents_utf8()?)).collect()
}

/// Runs what is missing. Several servers may do so at once: the migrator takes PostgreSQL's advisory lock, and for SQLite,
/// where it takes none, everything is one writing transaction.
pub(crate) async fn run(connection: &mut Connection) -> Result<(), OpenError> {
    let migrator = Migrator::with_migrations(migrations(match connection {
        Connection::Sqlite(_) => &SQLITE,
        Connection::Postgres(_) => &POSTGRES,
    }));
    let newest = migrator.iter().map(|migration| migration.version).max().unwrap_or(0);
    let outcome = match connection {
        Connection::Sqlite(connection) => run_alone(&migrator, connection).await,
        Connection::Postgres(connection) => migrator.run_direct(None, connection, false).await,
    };
    outcome.map_err(|error| match error {
        MigrateError::VersionMissing(found) if found > newest => OpenError::NewerSchema { found, newest },
        error => OpenError::Migrate(Box::new(error)),
    })
}

async fn run_alone(migrator: &Migrator, connection: &mut SqliteConnection) -> Result<(), MigrateError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    migrator.run_direct(None, &mut *transaction, false).await?;
    Ok(transaction.commit().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_migration_has_its_pair() {
        let named = |directory| -> Vec<(i64, String)> {
            migrations(directory)
                .iter()
                .map(|migration| (migration.version, migration.description.to_string()))
                .collect()
        };
        assert_eq!(named(&SQLITE), named(&POSTGRES));
        assert_eq!(named(&SQLITE).len(), SQLITE.files().count());
        assert_eq!(named(&POSTGRES).len(), POSTGRES.files().count());
    }
}
