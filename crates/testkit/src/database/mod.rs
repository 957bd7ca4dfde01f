//! A database of its own for each test.
//!
//! SQLite is a file in a temporary directory. PostgreSQL is a clone of a template that is migrated once per test process, in
//! the cluster that `STEAD_TEST_POSTGRES` names (which is for tests alone: their databases stay in it) or else in a
//! throw-away cluster that ends with the process. Tests that hold for either take the one that `STEAD_TEST_STORE` names.

mod cluster;
mod past;

use std::path::PathBuf;
use std::sync::Arc;

use sqlx::ConnectOptions as _;
use stead_domain::ports::Clock;
use stead_store::{DatabaseUrl, SqlStore, StoreConfig};
use tempfile::TempDir;

pub use past::{Held, hold, run};

use crate::clock::SystemClock;

/// A test's own database. A file goes when this is dropped.
#[derive(Debug)]
pub struct TestDatabase {
    url: DatabaseUrl,
    _directory: Option<TempDir>,
}

/// An empty SQLite database.
pub fn sqlite() -> TestDatabase {
    let directory = TempDir::with_prefix("stead-db-").expect("the temporary directory can be written");
    let url = DatabaseUrl::Sqlite(directory.path().join("stead.db"));
    TestDatabase { url, _directory: Some(directory) }
}

/// A PostgreSQL database with the current schema and no rows. `None`, and a line that says so, where PostgreSQL is not
/// installed; a panic instead when `STEAD_NO_SKIP=1`.
pub async fn postgres() -> Option<TestDatabase> {
    let Some(cluster) = cluster::shared().await else {
        skip("PostgreSQL is not installed");
        return None;
    };
    let options = cluster.database().await;
    Some(TestDatabase { url: DatabaseUrl::Postgres(Box::new(options)), _directory: None })
}

/// Whether the tests that hold for either database run on PostgreSQL: `STEAD_TEST_STORE=postgres`.
pub fn on_postgres() -> bool {
    match std::env::var("STEAD_TEST_STORE").as_deref() {
        Err(_) | Ok("" | "sqlite") => false,
        Ok("postgres") => true,
        Ok(other) => panic!("STEAD_TEST_STORE is `sqlite` or `postgres`, not `{other}`"),
    }
}

/// A database of the kind that `STEAD_TEST_STORE` names, with no rows.
pub async fn chosen() -> TestDatabase {
    if on_postgres() { postgres().await.expect("PostgreSQL is installed where it is asked for") } else { sqlite() }
}

fn skip(reason: &str) {
    assert!(std::env::var("STEAD_NO_SKIP").as_deref() != Ok("1"), "{reason}, and STEAD_NO_SKIP forbids to skip");
    #[expect(clippy::print_stdout, reason = "tests say what they skip")]
    {
        println!("skipped: {reason}");
    }
}

impl TestDatabase {
    /// Where it is.
    pub fn url(&self) -> DatabaseUrl {
        self.url.clone()
    }

    /// Where it is, as text for a configuration.
    pub fn url_text(&self) -> String {
        match &self.url {
            DatabaseUrl::Sqlite(path) => format!("sqlite://{}", path.display()),
            DatabaseUrl::Postgres(options) => options.to_url_lossy().to_string(),
        }
    }

    /// The file, when it is one.
    pub fn path(&self) -> Option<PathBuf> {
        match &self.url {
            DatabaseUrl::Sqlite(path) => Some(path.clone()),
            DatabaseUrl::Postgres(_) => None,
        }
    }

    /// Removes it now, whoever still uses it, instead of with the cluster.
    pub async fn remove(self) {
        if let DatabaseUrl::Postgres(options) = self.url
            && let Some(cluster) = cluster::shared().await
        {
            cluster.remove(options.get_database().unwrap_or_default()).await;
        }
    }

    /// Opens the store on it, with the machine's clock.
    pub async fn open(&self) -> SqlStore {
        self.open_with(Arc::new(SystemClock)).await
    }

    /// Opens the store on it, with a clock of the test's.
    pub async fn open_with(&self, clock: Arc<dyn Clock>) -> SqlStore {
        SqlStore::open(&StoreConfig::new(self.url()), clock).await.expect("a test's own database opens")
    }
}
