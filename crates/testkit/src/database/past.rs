//! Statements past the store: what another program does to a database while servers use it.

use std::sync::mpsc;
use std::thread::JoinHandle;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};
use stead_store::DatabaseUrl;

/// Opens a connection, carries out what must succeed, and does the rest while the connection is open.
async fn with(url: DatabaseUrl, sql: &'static str, meanwhile: impl FnOnce()) {
    macro_rules! done {
        ($options:expr) => {{
            let mut connection = $options.connect().await.expect("a test's own database answers");
            sqlx::raw_sql(sql).execute(&mut connection).await.expect("the statement succeeds");
            meanwhile();
            connection.close().await.expect("the database takes its leave");
        }};
    }
    match url {
        DatabaseUrl::Sqlite(path) => done!(SqliteConnectOptions::new().filename(path)),
        DatabaseUrl::Postgres(options) => done!(options),
    }
}

/// Carries out statements.
pub async fn run(url: DatabaseUrl, sql: &'static str) {
    with(url, sql, || {}).await;
}

/// A transaction that another program has begun and does not end.
#[derive(Debug)]
pub struct Held {
    letting_go: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Begins one with these statements, which take the locks that a test is about.
pub fn hold(url: DatabaseUrl, sql: &'static str) -> Held {
    let (letting_go, told) = mpsc::channel::<()>();
    let (begun, ready) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        runtime.block_on(with(url, sql, || {
            // Nobody who does not wait any more needs to know, and the end of the channel is what is waited for.
            let _ = begun.send(());
            let _ = told.recv();
        }));
    });
    ready.recv().expect("the transaction begins");
    Held { letting_go: Some(letting_go), thread: Some(thread) }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.letting_go.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
