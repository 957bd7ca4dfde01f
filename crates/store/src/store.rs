//! The store as a whole: opening, closing, and how its reads ask.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};
use stead_domain::ports::{Clock, StoreError};
use stead_domain::{Timestamp, WorkspaceId};

use crate::claim::{Claim, ClaimError};
use crate::columns::{Reader, RowError};
use crate::config::{DatabaseUrl, StoreConfig};
use crate::driver::{Connection, DriverError, NAME, RawRow, Readers, Value};
use crate::migrations::{self, OpenError};
use crate::table::Stored;
use crate::writer::{Counters, DATABASE_CLOCK, Inbox, Taken, Writer};

/// Rows in SQLite or PostgreSQL.
pub struct SqlStore {
    pub(crate) readers: Readers,
    pub(crate) inbox: Inbox,
    clock: Arc<dyn Clock>,
    counters: Arc<Counters>,
    taken: Taken,
}

/// What the store has done since it opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreStats {
    /// Commits that became durable.
    pub commits: u64,
    /// Transactions, each with one flush to disk, that made them so.
    pub groups: u64,
}

fn connect_failed(url: &DatabaseUrl, error: DriverError) -> OpenError {
    OpenError::Connect { place: format!("{url:?}"), source: Box::new(error) }
}

/// Finds out whether a store could be opened there, without changing anything: the database answers, and no newer server has
/// written it. A file that is missing is none to object to. Says which workspaces are there, in the order of their ids: no
/// other database has any of them, copies of this one apart.
pub async fn check(url: &DatabaseUrl) -> Result<Vec<WorkspaceId>, OpenError> {
    if let DatabaseUrl::Sqlite(path) = url
        && !path.exists()
    {
        return Ok(Vec::new());
    }
    let mut connection = Connection::open(url, NAME).await.map_err(|error| connect_failed(url, error))?;
    let checked = migrations::check(&mut connection).await;
    if let Err(error) = connection.close().await {
        tracing::debug!(
            error = &error as &dyn std::error::Error,
            "the database was gone when its schema had been read"
        );
    }
    checked
}

impl SqlStore {
    /// Connects, brings the schema up to date and starts the writing task; call it within a Tokio runtime.
    ///
    /// `clock` is the database clock of SQLite, which runs on this machine; PostgreSQL has its own.
    pub async fn open(config: &StoreConfig, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let lost = |error| connect_failed(&config.url, error);
        let name = config.sole.clone().unwrap_or_else(|| NAME.to_owned());
        let mut connection = Connection::open(&config.url, &name).await.map_err(lost)?;
        let mut claim = config.sole.is_some().then(Claim::default);
        if let Some(claim) = &mut claim {
            // A newer server's lock is not the reason to name.
            migrations::check(&mut connection).await?;
            claim.take(&mut connection).await.map_err(|error| match error {
                ClaimError::Held(holder) => OpenError::Held { holder },
                ClaimError::Driver(error) => lost(error),
            })?;
        }
        migrations::run(&mut connection).await?;
        connection.bound().await.map_err(lost)?;
        let (counters, taken) = (Arc::new(Counters::default()), Taken::default());
        let writer = Writer {
            url: config.url.clone(),
            name,
            connection: Some(connection),
            claim,
            taken: taken.clone(),
            relief: config.relief.clone(),
            clock: Arc::clone(&clock),
            counters: Arc::clone(&counters),
        };
        Ok(Self { readers: Readers::new(config), inbox: writer.start(), clock, counters, taken })
    }

    /// Finishes the commits that are queued and disconnects. Commits and reads that come later fail.
    pub async fn close(&self) {
        self.inbox.close().await;
        self.readers.close().await;
    }

    /// Returns when another server has taken the database, with what is known of it. Nothing is written from then on, and
    /// nothing that was read before may be believed.
    pub async fn taken(&self) -> String {
        self.taken.wait().await
    }

    /// What the store has done since it opened.
    pub fn stats(&self) -> StoreStats {
        StoreStats {
            commits: self.counters.commits.load(Ordering::Relaxed),
            groups: self.counters.groups.load(Ordering::Relaxed),
        }
    }

    /// All rows of a constant question.
    pub(crate) async fn all<T: Stored>(
        &self,
        action: &'static str,
        sql: &'static str,
        values: Result<Vec<Value>, RowError>,
    ) -> Result<Vec<T>, StoreError> {
        self.map(action, SqlStr::from_static(sql), values, |row| T::read(&mut Reader::new(row))).await
    }

    /// The row of a constant question that has at most one.
    pub(crate) async fn one<T: Stored>(
        &self,
        action: &'static str,
        sql: &'static str,
        values: Result<Vec<Value>, RowError>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.all(action, sql, values).await?.into_iter().next())
    }

    /// The rows of a question with a list of values in it.
    pub(crate) async fn among<T>(
        &self,
        action: &'static str,
        sql: String,
        values: Result<Vec<Value>, RowError>,
        read: impl Fn(&RawRow) -> Result<T, RowError>,
    ) -> Result<Vec<T>, StoreError> {
        self.map(action, AssertSqlSafe(sql).into_sql_str(), values, read).await
    }

    /// The rows of a question, each read by `read`.
    pub(crate) async fn map<T>(
        &self,
        action: &'static str,
        sql: SqlStr,
        values: Result<Vec<Value>, RowError>,
        read: impl Fn(&RawRow) -> Result<T, RowError>,
    ) -> Result<Vec<T>, StoreError> {
        let bad_row = |error: RowError| StoreError { action, source: Box::new(error) };
        let lost = |error: DriverError| StoreError { action, source: Box::new(error) };
        let rows = self.readers.rows(sql, values.map_err(bad_row)?).await.map_err(lost)?;
        rows.iter().map(read).collect::<Result<_, _>>().map_err(bad_row)
    }

    /// The database's clock.
    pub(crate) async fn database_clock(&self) -> Result<Timestamp, StoreError> {
        const ACTION: &str = "read the database's clock";
        if matches!(self.readers, Readers::Sqlite(_)) {
            return Ok(self.clock.now());
        }
        let sql = SqlStr::from_static(DATABASE_CLOCK);
        let instants = self.map(ACTION, sql, Ok(Vec::new()), |row| Reader::new(row).take()).await?;
        let missing = || StoreError { action: ACTION, source: Box::new(sqlx::Error::RowNotFound) };
        instants.into_iter().next().ok_or_else(missing)
    }
}

impl fmt::Debug for SqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlStore").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
