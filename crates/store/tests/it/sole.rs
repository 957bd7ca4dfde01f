//! A PostgreSQL database that is one server's alone.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stead_domain::changes::Changes;
use stead_domain::ports::Store as _;
use stead_store::{DatabaseUrl, OpenError, SqlStore, StoreConfig};
use stead_testkit::{Samples, SystemClock, TestDatabase, database};
use tokio::net::{UnixListener, UnixStream};

use crate::{commit, run_sql, texts};

async fn open(url: DatabaseUrl, name: &str) -> Result<SqlStore, OpenError> {
    SqlStore::open(&StoreConfig::new(url).sole(name), Arc::new(SystemClock)).await
}

/// Cuts the connections of a server, as a network or a restart of the database does.
async fn cut(database: &TestDatabase) {
    run_sql(database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'first' AND datname = current_database()").await;
}

#[tokio::test]
async fn a_second_server_is_refused_by_the_name_of_the_first_until_that_one_is_gone() {
    let Some(database) = database::postgres().await else { return };
    let samples = Samples::new(1);
    let first = open(database.url(), "first").await.unwrap();
    let refused = open(database.url(), "second").await.unwrap_err();
    assert!(
        matches!(&refused, OpenError::Held { holder } if holder.starts_with("first, connected since ")),
        "{refused}"
    );
    assert!(refused.to_string().contains("another server uses the database (first"), "{refused}");
    commit(&first, Changes::new().fact(samples.workspace())).await;
    // Whoever has the schema of its own in the database is another matter.
    run_sql(&database, "CREATE SCHEMA other").await;
    let DatabaseUrl::Postgres(options) = database.url() else { panic!("it is PostgreSQL") };
    let elsewhere = DatabaseUrl::Postgres(Box::new(options.options([("search_path", "other")])));
    open(elsewhere, "other").await.unwrap().close().await;

    first.close().await;
    let second = open(database.url(), "second").await.unwrap();
    assert_eq!(second.workspace_first().await.unwrap(), Some(samples.workspace()));
}

#[tokio::test]
async fn a_lock_that_was_lost_is_taken_anew_whether_or_not_somebody_writes() {
    let Some(database) = database::postgres().await else { return };
    let samples = Samples::new(1);
    let first = open(database.url(), "first").await.unwrap();
    cut(&database).await;
    commit(&first, Changes::new().fact(samples.workspace())).await;
    assert!(matches!(open(database.url(), "second").await, Err(OpenError::Held { .. })));
    // Nobody writes.
    cut(&database).await;
    let held = "SELECT CAST(COUNT(*) AS TEXT) FROM pg_locks WHERE locktype = 'advisory' AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let began = Instant::now();
    while texts(&database, held.to_owned()).await[0][0] != "1" {
        assert!(began.elapsed() < Duration::from_secs(20), "the lock is not taken anew");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(matches!(open(database.url(), "second").await, Err(OpenError::Held { .. })));
    commit(&first, Changes::new().insert(samples.agent())).await;
}

#[tokio::test]
async fn a_server_whose_database_another_one_took_writes_no_more() {
    let Some(database) = database::postgres().await else { return };
    let samples = Samples::new(1);
    let first = open(database.url(), "first").await.unwrap();
    let (second, ()) = tokio::join!(open(database.url(), "second"), async {
        // By then the other one waits.
        tokio::time::sleep(Duration::from_millis(500)).await;
        cut(&database).await;
    });
    let second = second.unwrap();
    // Nobody needs to write for it to be noticed.
    let holder = tokio::time::timeout(Duration::from_secs(20), first.taken()).await.unwrap();
    assert!(holder.starts_with("second, connected since"), "{holder}");
    let refused = first.commit(Changes::new().fact(samples.workspace())).await.unwrap_err();
    assert!(format!("{refused:?}").contains("second"), "{refused:?}");
    second.close().await;
    // Not even when the other one is gone: it has changed what this one believes to know.
    assert!(first.commit(Changes::new().fact(samples.workspace())).await.is_err());
    assert_eq!(database.open().await.workspace_first().await.unwrap(), None);
}

/// Passes connections on until it is told to let go of the client's ends alone, which the database does not see.
fn pass_on(socket: &Path, to: &Path) -> tokio::sync::watch::Sender<u32> {
    let listener = UnixListener::bind(socket).unwrap();
    let (letting_go, told) = tokio::sync::watch::channel(0);
    let to = to.to_owned();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (to, mut told) = (to.clone(), told.clone());
            told.mark_unchanged();
            tokio::spawn(async move {
                let mut server = UnixStream::connect(&to).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    _ = told.changed() => {
                        drop(client);
                        tokio::time::sleep(Duration::from_mins(1)).await;
                    }
                }
            });
        }
    });
    letting_go
}

#[tokio::test]
async fn a_lost_connection_that_the_database_believes_in_is_ended() {
    let Some(database) = database::postgres().await else { return };
    let DatabaseUrl::Postgres(options) = database.url() else { panic!("it is PostgreSQL") };
    let Some(real) = options.get_socket().map(|directory| directory.join(".s.PGSQL.5432")).filter(|path| path.exists())
    else {
        println!("skipped: the cluster is not reached through a Unix socket");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let letting_go = pass_on(&directory.path().join(".s.PGSQL.5432"), &real);
    let through = DatabaseUrl::Postgres(Box::new(options.socket(directory.path())));
    let samples = Samples::new(1);
    let first = open(through, "first").await.unwrap();
    letting_go.send(1).unwrap();
    let began = Instant::now();
    commit(&first, Changes::new().fact(samples.workspace())).await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(matches!(open(database.url(), "second").await, Err(OpenError::Held { .. })));
}
