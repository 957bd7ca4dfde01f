//! A database that is one server's alone: a session-level advisory lock of PostgreSQL's.
//!
//! The connection that writes holds it, so nothing is ever written without it, and it goes with that connection. Ordering:
//! whoever connects to write takes the lock before anything else, migrations included. The writer looks at an idle connection
//! now and then, so that a lock that was lost is soon taken anew; a server that finds it in other hands by then must not
//! write any more, because the other one has read and changed what this one believes to know.

use std::time::{Duration, Instant};

use sqlx::SqlStr;

use crate::columns::{Column, Reader};
use crate::driver::{Connection, DriverError, Value};

/// How long a claim waits for a connection that is about to end: of a server that has just gone, or this one's last.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(20);

/// The lock's two numbers: Stead's, and the schema's, since several may be in one database.
macro_rules! lock {
    () => {
        "1398031681, hashtext(COALESCE(current_schema(), ''))"
    };
}

/// Lets the database notice soon that whoever held the lock is gone: in the midst of a statement when it was a process (since
/// PostgreSQL 14), within half a minute when it was a machine.
const NOTICE: &str = "SELECT set_config(name, wanted, false) FROM pg_settings JOIN (VALUES
        ('client_connection_check_interval', '1s'),
        ('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3')
    ) AS noticing (noticed, wanted) ON noticed = name";
const TAKE: &str = concat!("SELECT CAST(CAST(pg_try_advisory_lock(", lock!(), ") AS INTEGER) AS BIGINT)");
/// A connection's name, which no other one has at any time.
macro_rules! name {
    () => {
        "pid || ' ' || CAST(EXTRACT(EPOCH FROM backend_start) AS TEXT)"
    };
}
const OWN: &str = concat!("SELECT ", name!(), " FROM pg_stat_activity WHERE pid = pg_backend_pid()");
/// What another user's connection is like only some may read.
const HOLDER: &str = concat!(
    "SELECT COALESCE(",
    name!(),
    ", ''), COALESCE(application_name, ''), COALESCE(CAST(client_addr AS TEXT), ''),
        COALESCE(CAST(date_trunc('second', backend_start) AS TEXT), '')
    FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (CAST(classid AS BIGINT), CAST(objid AS BIGINT)) = (SELECT stead, CAST(own AS BIGINT) & 4294967295
            FROM (VALUES (",
    lock!(),
    ")) AS numbers (stead, own))"
);
const END: &str = concat!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ", name!(), " = $1");

/// Why a database is not this server's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// It is another's, which is described.
    #[error("another server has the database ({0})")]
    Held(String),
    /// Nobody could say.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

impl From<sqlx::Error> for ClaimError {
    fn from(error: sqlx::Error) -> Self {
        DriverError::from(error).into()
    }
}

/// What a server knows of its own hold on the database.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    /// The connection that held the lock last. While it is not over, what it was about to write may still be written.
    last: Option<String>,
}

fn first<T: Column>(rows: &[crate::driver::RawRow]) -> Result<T, sqlx::Error> {
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    Reader::new(row).take().map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

impl Claim {
    /// Makes the database this server's for as long as the connection lives. SQLite's file lies in a data directory, which has
    /// a lock of its own.
    pub(crate) async fn take(&mut self, connection: &mut Connection) -> Result<(), ClaimError> {
        if matches!(connection, Connection::Sqlite(_)) {
            return Ok(());
        }
        if let Err(error) = connection.rows(NOTICE).await {
            // Not every machine can; the database is none the worse for it.
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "the database will not look for lost connections"
            );
        }
        let began = Instant::now();
        loop {
            if first::<i64>(&connection.rows(TAKE).await?)? == 1 {
                self.last = Some(first(&connection.rows(OWN).await?)?);
                if began.elapsed() > LOOK {
                    let waited_ms = began.elapsed().as_millis() as u64;
                    tracing::info!(waited_ms, "the last connection to the database had not ended yet");
                }
                return Ok(());
            }
            let holder = self.holder(connection).await?;
            if began.elapsed() > PATIENCE {
                return Err(ClaimError::Held(holder));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Describes whoever has the lock. This server's own last connection is ended.
    async fn holder(&self, connection: &mut Connection) -> Result<String, sqlx::Error> {
        let rows = connection.rows(HOLDER).await?;
        let Some(row) = rows.first() else { return Ok("which has just gone".to_owned()) };
        let mut reader = Reader::new(row);
        let mut next = || reader.take::<String>().map_err(|error| sqlx::Error::Decode(Box::new(error)));
        let (name, who, address, since) = (next()?, next()?, next()?, next()?);
        if self.last.as_ref() == Some(&name) {
            connection.execute(SqlStr::from_static(END), vec![Value::Text(Some(name))], false).await?;
            return Ok("this server's own last connection".to_owned());
        }
        let who = if who.is_empty() { "a connection that tells this user nothing of itself".to_owned() } else { who };
        let at = if address.is_empty() { String::new() } else { format!(" at {address}") };
        let since = if since.is_empty() { String::new() } else { format!(", connected since {since}") };
        Ok(format!("{who}{at}{since}"))
    }
}
