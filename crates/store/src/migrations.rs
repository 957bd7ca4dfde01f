//! Brings a database up to this binary's schema: numbered files, one list per engine, embedded, forward only.

use include_dir::{Dir, include_dir};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{Connection as _, SqlSafeStr as _, SqlStr, SqliteConnection};
use stead_domain::WorkspaceId;

use crate::columns::Reader;
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
    /// Another server has it.
    #[error(
        "another server uses the database ({holder}), and a database has one server: stop that one, or give this one a database of its own"
    )]
    Held {
        /// Which, as far as the database says.
        holder: String,
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

/// The migrations of a database's engine, and the number of the newest.
fn known(connection: &Connection) -> (Vec<Migration>, i64) {
    let migrations = migrations(match connection {
        Connection::Sqlite(_) => &SQLITE,
        Connection::Postgres(_) => &POSTGRES,
    });
    let newest = migrations.iter().map(|migration| migration.version).max().unwrap_or(0);
    (migrations, newest)
}

/// Refuses the database of a newer server, and changes nothing. Says which workspaces are there.
pub(crate) async fn check(connection: &mut Connection) -> Result<Vec<WorkspaceId>, OpenError> {
    /// Neither engine minds the question whether the table is there.
    const THERE: [&str; 2] = [
        "SELECT COUNT(*) FROM sqlite_master WHERE name = '_sqlx_migrations'",
        "SELECT COUNT(*) FROM pg_catalog.pg_tables
         WHERE tablename = '_sqlx_migrations' AND schemaname = ANY (current_schemas(false))",
    ];
    const VERSION: &str = "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations";
    const WORKSPACES: &str = "SELECT id FROM workspaces ORDER BY id";
    let failed = |error: sqlx::Error| OpenError::Migrate(Box::new(error));
    let (_, newest) = known(connection);
    let there = THERE[usize::from(matches!(connection, Connection::Postgres(_)))];
    for question in [there, VERSION] {
        let rows = connection.rows(question).await.map_err(failed)?;
        let row = rows.first().ok_or_else(|| failed(sqlx::Error::RowNotFound))?;
        let found: i64 = Reader::new(row).take().map_err(|error| OpenError::Migrate(Box::new(error)))?;
        match (question == VERSION, found) {
            // The first migration makes the workspaces' table.
            (_, 0) => return Ok(Vec::new()),
            (true, found) if found > newest => return Err(OpenError::NewerSchema { found, newest }),
            _ => {}
        }
    }
    let rows = connection.rows(WORKSPACES).await.map_err(failed)?;
    let read = |row| Reader::new(row).take().map_err(|error| OpenError::Migrate(Box::new(error)));
    rows.iter().map(read).collect()
}

/// Runs what is missing. Several servers may do so at once: the migrator takes PostgreSQL's advisory lock, and for SQLite,
/// where it takes none, everything is one writing transaction.
pub(crate) async fn run(connection: &mut Connection) -> Result<(), OpenError> {
    let (migrations, newest) = known(connection);
    let migrator = Migrator::with_migrations(migrations);
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
