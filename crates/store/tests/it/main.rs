//! The store's contract: one set of tests, run on SQLite and on PostgreSQL.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests, though most are not marked as such")]

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _};
use stead_domain::changes::Changes;
use stead_domain::ports::{CommitError, Store};
use stead_store::{DatabaseUrl, SqlStore};
use stead_testkit::TestDatabase;

/// Runs each named `async fn(TestDatabase)` on either engine.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(stead_testkit::database::sqlite()).await;
            })+
        }
        mod on_postgres {
            $(#[tokio::test]
            async fn $name() {
                if let Some(database) = stead_testkit::database::postgres().await {
                    super::$name(database).await;
                }
            })+
        }
    };
}

mod collection;
mod commits;
mod conflicts;
mod ended;
mod mapping;
mod reads;
mod removals;
mod room;
mod schema;
mod sole;
mod sources;
mod upgrades;
mod watching;

/// Commits what must succeed.
async fn commit(store: &SqlStore, changes: Changes) {
    store.commit(changes).await.expect("the commit succeeds");
}

/// The table in which a commit met a conflict.
async fn conflict(store: &SqlStore, changes: Changes) -> &'static str {
    match store.commit(changes).await {
        Err(CommitError::Conflict(table)) => table,
        other => panic!("a conflict was expected, not {other:?}"),
    }
}

/// The texts of a query's rows, asked past the store.
async fn texts(database: &TestDatabase, sql: String) -> Vec<Vec<String>> {
    macro_rules! asked {
        ($options:expr) => {{
            let mut connection = $options.connect().await.unwrap();
            let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut connection).await.unwrap();
            let texts = |index: usize, rows: &_| sqlx::Row::try_get::<String, _>(rows, index).unwrap();
            rows.iter().map(|row| (0..row.len()).map(|index| texts(index, row)).collect()).collect()
        }};
    }
    match database.url() {
        DatabaseUrl::Sqlite(path) => asked!(sqlx::sqlite::SqliteConnectOptions::new().filename(path)),
        DatabaseUrl::Postgres(options) => asked!(options),
    }
}

/// Carries something out past the store.
async fn run_sql(database: &TestDatabase, sql: &'static str) {
    stead_testkit::database::run(database.url(), sql).await;
}

/// Every table's columns as `table.column type nullable`, the migrator's own table excepted.
async fn columns(database: &TestDatabase) -> BTreeSet<String> {
    let sql = match database.url() {
        DatabaseUrl::Sqlite(_) => {
            "SELECT m.name, c.name, lower(c.type), CASE c.\"notnull\" WHEN 1 THEN 'NO' ELSE 'YES' END
             FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'"
        }
        DatabaseUrl::Postgres(_) => {
            "SELECT table_name::text, column_name::text, data_type::text, is_nullable::text
             FROM information_schema.columns WHERE table_schema = 'public'"
        }
    };
    let rows = texts(database, sql.to_owned()).await.into_iter();
    rows.filter(|row| row[0] != "_sqlx_migrations")
        .map(|row| format!("{}.{} {} {}", row[0], row[1], row[2], row[3]))
        .collect()
}
