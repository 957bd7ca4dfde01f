//! Either engine behind one shape: the same statement with the same values is expanded once per driver.
//!
//! Everything here is about connections, statements and raw rows. The writer owns one connection; readers share a pool.
//! SQLite runs in WAL mode with `synchronous=FULL`, so a commit that returned is on disk, and readers never wait for it.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgRow};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqliteRow, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection as _, SqlStr};

use crate::config::{DatabaseUrl, StoreConfig};

/// How long SQLite waits for another process's lock, and a reader for a free connection.
const WAIT: Duration = Duration::from_secs(10);
/// After this long a read, a statement of a commit or a connection attempt counts as failed.
const DEADLINE: Duration = Duration::from_secs(15);
/// PostgreSQL gives a statement up by itself a little earlier, also when nobody is there any more to hear of it, and a transaction
/// whose server is gone.
const GIVE_UP: &str = "SET statement_timeout = '14s'; SET idle_in_transaction_session_timeout = '60s'";

/// What PostgreSQL knows a connection by that needs no other name.
pub(crate) const NAME: &str = "stead";

/// A value to bind: the two column types there are, each possibly null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// TEXT.
    Text(Option<String>),
    /// BIGINT.
    Int(Option<i64>),
}

/// The database did not answer, or not in time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriverError {
    /// The driver's word on it.
    #[error("the database refused or was lost")]
    Sql(#[from] sqlx::Error),
    /// It took too long.
    #[error("the database did not answer in time")]
    Late,
}

/// A row as its driver returns it.
pub(crate) enum RawRow {
    /// From SQLite.
    Sqlite(SqliteRow),
    /// From PostgreSQL.
    Postgres(PgRow),
}

/// The connections that read.
#[derive(Debug, Clone)]
pub(crate) enum Readers {
    /// On SQLite, where they cannot write.
    Sqlite(SqlitePool),
    /// On PostgreSQL.
    Postgres(PgPool),
}

/// The connection that writes.
#[derive(Debug)]
pub(crate) enum Connection {
    /// To SQLite.
    Sqlite(SqliteConnection),
    /// To PostgreSQL.
    Postgres(PgConnection),
}

/// Expands to a query with its values bound; the driver follows from where it is run.
macro_rules! bound {
    ($sql:expr, $values:expr) => {{
        let mut query = sqlx::query($sql);
        for value in $values {
            query = match value {
                Value::Text(text) => query.bind(text),
                Value::Int(number) => query.bind(number),
            };
        }
        query
    }};
}

fn sqlite_options(path: &std::path::Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .busy_timeout(WAIT)
        .synchronous(SqliteSynchronous::Full)
        .disable_statement_logging()
}

fn postgres_options(options: &PgConnectOptions) -> PgConnectOptions {
    options.clone().application_name(NAME).disable_statement_logging()
}

/// Connects. The switch to WAL of a new file does not wait for another process that is at the same, whatever the timeout
/// says, so the waiting is done here; the caller's deadline ends it.
async fn sqlite_connect(options: &SqliteConnectOptions) -> Result<SqliteConnection, sqlx::Error> {
    loop {
        match SqliteConnection::connect_with(options).await {
            Err(error) if is_busy(&error) => tokio::time::sleep(Duration::from_millis(10)).await,
            outcome => return outcome,
        }
    }
}

/// SQLITE_BUSY in any of its extended forms, of which it is the lowest byte.
fn is_busy(error: &sqlx::Error) -> bool {
    const SQLITE_BUSY: u32 = 5;
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == SQLITE_BUSY)
}

/// How a write failed that was refused or lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    /// For want of room on the disk.
    pub(crate) is_full: bool,
    /// Nothing of the transaction can have become durable.
    pub(crate) is_undone: bool,
}

impl Fault {
    /// What an error says that has the driver's in its chain.
    pub(crate) fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<sqlx::Error>() {
                let code = error.as_database_error().and_then(|error| Some(error.code()?.into_owned()));
                // SQLITE_FULL and PostgreSQL's `disk_full`; SQLITE_ERROR, when the former took the savepoints with it.
                let is_full = matches!(code.as_deref(), Some("13" | "53100"));
                return Self { is_full, is_undone: is_full || code.as_deref() == Some("1") };
            }
            next = error.source();
        }
        Self { is_full: false, is_undone: false }
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, DriverError> {
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(DriverError::Late),
    }
}

/// The same where the driver's own error is expected.
async fn soon<T>(work: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let late = |_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()));
    tokio::time::timeout(DEADLINE, work).await.unwrap_or_else(late)
}

impl Readers {
    /// The pool; connections are made when they are needed. The database must exist by then.
    pub(crate) fn new(config: &StoreConfig) -> Self {
        match &config.url {
            DatabaseUrl::Sqlite(path) => {
                let options = sqlite_options(path).pragma("query_only", "1");
                // A file of this machine's needs no proof that it is still there.
                let pool = PoolOptions::new().max_connections(config.readers).acquire_timeout(WAIT);
                Self::Sqlite(pool.test_before_acquire(false).connect_lazy_with(options))
            }
            DatabaseUrl::Postgres(options) => {
                let pool = PoolOptions::new().max_connections(config.readers).acquire_timeout(WAIT);
                let pool = pool.after_connect(|connection, _| {
                    Box::pin(async move { sqlx::raw_sql(GIVE_UP).execute(connection).await.map(|_| ()) })
                });
                Self::Postgres(pool.connect_lazy_with(postgres_options(options)))
            }
        }
    }

    /// All rows that a statement returns.
    pub(crate) async fn rows(&self, sql: SqlStr, values: Vec<Value>) -> Result<Vec<RawRow>, DriverError> {
        match self {
            Self::Sqlite(pool) => {
                let rows = in_time(bound!(sql, values).fetch_all(pool)).await?;
                Ok(rows.into_iter().map(RawRow::Sqlite).collect())
            }
            Self::Postgres(pool) => {
                let rows = in_time(bound!(sql, values).fetch_all(pool)).await?;
                Ok(rows.into_iter().map(RawRow::Postgres).collect())
            }
        }
    }

    /// Closes every connection, waiting for those in use as long as a read may take.
    pub(crate) async fn close(&self) {
        let closed = match self {
            Self::Sqlite(pool) => tokio::time::timeout(DEADLINE, pool.close()).await,
            Self::Postgres(pool) => tokio::time::timeout(DEADLINE, pool.close()).await,
        };
        if closed.is_err() {
            tracing::warn!("the database did not let go of its connections in time");
        }
    }
}

impl Connection {
    /// Connects, to PostgreSQL under this name; makes a missing SQLite file, which other users of the machine may not read.
    /// Its journal takes that over.
    pub(crate) async fn open(url: &DatabaseUrl, name: &str) -> Result<Self, DriverError> {
        match url {
            DatabaseUrl::Sqlite(path) => {
                let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
                file.map_err(sqlx::Error::from)?;
                let options = sqlite_options(path).journal_mode(SqliteJournalMode::Wal);
                Ok(Self::Sqlite(in_time(sqlite_connect(&options)).await?))
            }
            DatabaseUrl::Postgres(options) => {
                let options = postgres_options(options).application_name(name);
                Ok(Self::Postgres(in_time(PgConnection::connect_with(&options)).await?))
            }
        }
    }

    /// From here on statements have a bound on the database's side, too. Not while it migrates, which may take long.
    pub(crate) async fn bound(&mut self) -> Result<(), DriverError> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(connection) => in_time(sqlx::raw_sql(GIVE_UP).execute(connection)).await.map(|_| ()),
        }
    }

    /// Carries out a statement and says how many rows it concerned. Only a `repeated` one is kept prepared.
    pub(crate) async fn execute(
        &mut self,
        sql: SqlStr,
        values: Vec<Value>,
        repeated: bool,
    ) -> Result<u64, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(connection) => {
                soon(bound!(sql, values).persistent(repeated).execute(connection)).await?.rows_affected()
            }
            Self::Postgres(connection) => {
                soon(bound!(sql, values).persistent(repeated).execute(connection)).await?.rows_affected()
            }
        })
    }

    /// Carries out a constant statement without values.
    pub(crate) async fn command(&mut self, sql: &'static str) -> Result<(), sqlx::Error> {
        self.execute(SqlStr::from_static(sql), Vec::new(), true).await.map(|_| ())
    }

    /// All rows that a statement returns.
    pub(crate) async fn rows(&mut self, sql: &'static str) -> Result<Vec<RawRow>, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(connection) => {
                soon(sqlx::query(sql).fetch_all(connection)).await?.into_iter().map(RawRow::Sqlite).collect()
            }
            Self::Postgres(connection) => {
                soon(sqlx::query(sql).fetch_all(connection)).await?.into_iter().map(RawRow::Postgres).collect()
            }
        })
    }

    /// Begins the transaction of a group. A deferred one that turns to writing would fail at once on SQLite when another
    /// process has written meanwhile, whatever the timeout says.
    pub(crate) async fn begin(&mut self) -> Result<(), DriverError> {
        let sql = match self {
            Self::Sqlite(_) => "BEGIN IMMEDIATE",
            Self::Postgres(_) => "BEGIN",
        };
        in_time(self.command(sql)).await
    }

    /// Says goodbye to the database.
    pub(crate) async fn close(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(connection) => soon(connection.close()).await,
            Self::Postgres(connection) => soon(connection.close()).await,
        }
    }
}
