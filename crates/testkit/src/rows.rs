//! How many rows a database holds, asked past the store.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, ConnectOptions as _};
use stead_store::DatabaseUrl;

use crate::TestDatabase;

/// The tables that hold rows, with how many; the migrator's own excepted.
///
/// # Panics
/// When the database does not answer.
pub async fn counts(database: &TestDatabase) -> BTreeMap<String, i64> {
    macro_rules! counted {
        ($options:expr, $tables:literal) => {{
            let mut connection = $options.connect().await.expect("a test's own database answers");
            let tables = sqlx::query_scalar::<_, String>($tables).fetch_all(&mut connection).await;
            let mut counts = BTreeMap::new();
            for table in tables.expect("the tables are listed") {
                let sql = AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
                let count: i64 = sqlx::query_scalar(sql).fetch_one(&mut connection).await.expect("a table is counted");
                if count > 0 {
                    counts.insert(table, count);
                }
            }
            sqlx::Connection::close(connection).await.expect("the connection closes");
            counts
        }};
    }
    match database.url() {
        DatabaseUrl::Sqlite(path) => counted!(
            sqlx::sqlite::SqliteConnectOptions::new().filename(path),
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_sqlx%' ESCAPE '\\'"
        ),
        DatabaseUrl::Postgres(options) => counted!(
            options,
            "SELECT table_name::text FROM information_schema.tables
             WHERE table_schema = 'public' AND table_name NOT LIKE '\\_sqlx%'"
        ),
    }
}
