//! Where the database is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use sqlx::postgres::PgConnectOptions;

/// Which database, without anything secret in its `Debug`.
#[derive(Clone)]
pub enum DatabaseUrl {
    /// A file of this machine's, made when it is missing; its directory must exist.
    Sqlite(PathBuf),
    /// A PostgreSQL database, which must exist.
    Postgres(Box<PgConnectOptions>),
}

/// Why a text names no database. The text is not repeated: it may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseUrlError {
    /// Neither of the two engines.
    #[error("a database URL starts with `sqlite://` or `postgres://`")]
    Scheme,
    /// No file.
    #[error("an SQLite URL names a file: `sqlite:///path/stead.db`")]
    Path,
    /// A PostgreSQL URL that cannot be read.
    #[error("failed to read the PostgreSQL URL")]
    Postgres(#[source] sqlx::Error),
}

impl FromStr for DatabaseUrl {
    type Err = DatabaseUrlError;

    /// Reads `sqlite:///path/stead.db` (the path as it is, not percent-encoded) or
    /// `postgres://user:password@host:port/database`; `?host=/directory` names a Unix socket's directory.
    fn from_str(text: &str) -> Result<Self, DatabaseUrlError> {
        if let Some(path) = text.strip_prefix("sqlite://") {
            return if path.is_empty() { Err(DatabaseUrlError::Path) } else { Ok(Self::Sqlite(path.into())) };
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return text.parse().map(|options| Self::Postgres(Box::new(options))).map_err(DatabaseUrlError::Postgres);
        }
        Err(DatabaseUrlError::Scheme)
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Self::Postgres(options) => {
                let place =
                    options.get_socket().map_or_else(|| options.get_host().into(), |path| path.to_string_lossy());
                write!(f, "postgres at {place}, database {}", options.get_database().unwrap_or_default())
            }
        }
    }
}

/// Somebody who can make room on the database's disk when it is full.
pub trait Relief: fmt::Debug + Send + Sync {
    /// A write failed; `is_full` when the database said that this was for want of room. Says whether there is more room now, so
    /// that the same may be tried once more. Called by the one task that writes, which waits: it must not take long.
    fn make_room(&self, is_full: bool) -> bool;
}

/// What the store needs to know to open.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Which database.
    pub url: DatabaseUrl,
    /// How many connections read at once; one more writes.
    pub readers: u32,
    /// Who the only server of the database is, in a few words for others that want it. Without, any number may write: a
    /// database takes that, a server that remembers what it read does not.
    pub sole: Option<String>,
    /// Who is asked for room when there is none.
    pub relief: Option<Arc<dyn Relief>>,
}

impl StoreConfig {
    /// The database with the default number of connections, and nobody's alone.
    pub fn new(url: DatabaseUrl) -> Self {
        Self { url, readers: 4, sole: None, relief: None }
    }

    /// The same for a server that is the only one, and is called this.
    pub fn sole(self, server: impl Into<String>) -> Self {
        Self { sole: Some(server.into()), ..self }
    }

    /// The same with somebody who makes room.
    pub fn relieved(self, relief: Arc<dyn Relief>) -> Self {
        Self { relief: Some(relief), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_file_or_a_server_and_never_show_a_password() {
        let file: DatabaseUrl = "sqlite:///var/lib/stead db/stead.db".parse().unwrap();
        assert_eq!(format!("{file:?}"), "sqlite:///var/lib/stead db/stead.db");
        let server: DatabaseUrl = "postgres://me:hunter2@db:5433/stead".parse().unwrap();
        assert_eq!(format!("{server:?}"), "postgres at db, database stead");
        let socket: DatabaseUrl = "postgres://me@localhost/stead?host=/run/pg".parse().unwrap();
        assert_eq!(format!("{socket:?}"), "postgres at /run/pg, database stead");
        assert!(matches!("mysql://x".parse::<DatabaseUrl>(), Err(DatabaseUrlError::Scheme)));
        assert!(matches!("sqlite://".parse::<DatabaseUrl>(), Err(DatabaseUrlError::Path)));
    }
}
