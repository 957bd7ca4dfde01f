//! The PostgreSQL cluster that the tests of one process share.
//!
//! A throw-away cluster runs under a small shell that waits on a pipe from the test process: when the pipe closes, however
//! the process ended, the shell ends the server and removes its directory.

use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Connection as _};
use stead_store::{DatabaseUrl, SqlStore, StoreConfig};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::clock::SystemClock;

/// `$1` holds the programs, `$2` is the cluster's directory. Durability is not what tests of a throw-away cluster are about.
const WATCHDOG: &str = r#"
trap '' INT TERM HUP
"$1/initdb" -D "$2/data" -U postgres -A trust -E UTF8 --no-locale --no-sync >"$2/initdb.log" 2>&1 </dev/null || exit 1
"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c fsync=off -c full_page_writes=off -c max_connections=200 \
    -c shared_buffers=32MB -c max_parallel_workers=0 -c autovacuum=off >"$2/postgres.log" 2>&1 </dev/null &
server=$!
read -r _
kill -QUIT "$server"
wait "$server"
rm -rf "$2"
"#;

/// How long a cluster may take to answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// A cluster with a migrated template.
pub(super) struct Cluster {
    options: PgConnectOptions,
    template: String,
    clones: AtomicU32,
    /// Holds the pipe whose end ends the cluster.
    _watchdog: Option<Child>,
}

/// The cluster of this process; `None` where PostgreSQL is not installed.
pub(super) async fn shared() -> Option<&'static Cluster> {
    static CLUSTER: OnceCell<Option<Cluster>> = OnceCell::const_new();
    CLUSTER.get_or_init(start).await.as_ref()
}

async fn start() -> Option<Cluster> {
    let (options, watchdog) = match std::env::var("STEAD_TEST_POSTGRES") {
        Ok(url) => (url.parse().expect("STEAD_TEST_POSTGRES is a PostgreSQL URL"), None),
        Err(_) => {
            let (directory, watchdog) = throw_away(&programs()?).expect("a throw-away cluster starts");
            let options = PgConnectOptions::new_without_pgpass().socket(directory).username("postgres");
            (options.database("postgres"), Some(watchdog))
        }
    };
    let template = format!("stead_template_{}", std::process::id());
    let cluster = Cluster { options, template, clones: AtomicU32::new(0), _watchdog: watchdog };
    cluster.prepare().await;
    Some(cluster)
}

/// The directory of the newest PostgreSQL's programs, as Debian lays them out.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let numbered = versions.filter_map(|entry| {
        let path = entry.ok()?.path();
        let number: u32 = path.file_name()?.to_str()?.parse().ok()?;
        let programs = path.join("bin");
        programs.join("initdb").exists().then_some((number, programs))
    });
    numbered.max().map(|(_, programs)| programs)
}

/// User and group of an unprivileged user, when we are root: PostgreSQL refuses to run as root.
fn unprivileged() -> Option<(u32, u32)> {
    let number = |option: &str, user: &str| -> Option<u32> {
        let output = Command::new("id").args([option, user]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let mut users = ["postgres", "nobody"].into_iter();
    root.then(|| users.find_map(|user| Some((number("-u", user)?, number("-g", user)?)))).flatten()
}

/// Starts a cluster in a directory of its own and says which; the directory also holds the socket.
fn throw_away(programs: &Path) -> io::Result<(PathBuf, Child)> {
    let directory = TempDir::with_prefix("stead-pg-")?.keep();
    // Servers of tests that are ordinary users come to the socket, too.
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o711))?;
    let mut command = match unprivileged() {
        Some((user, group)) => {
            chown(&directory, Some(user), Some(group))?;
            let mut command = Command::new("setpriv");
            command.args(["--clear-groups", "--reuid", &user.to_string(), "--regid", &group.to_string()]).arg("sh");
            command
        }
        None => Command::new("sh"),
    };
    command.args(["-c", WATCHDOG, "watchdog"]).arg(programs).arg(&directory).current_dir("/");
    let watchdog = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    Ok((directory, watchdog))
}

impl Cluster {
    /// Waits until the cluster answers, then makes the template: every test clones it instead of migrating.
    async fn prepare(&self) {
        let mut waited = Duration::ZERO;
        let mut connection = loop {
            match PgConnection::connect_with(&self.options).await {
                Ok(connection) => break connection,
                Err(error) => assert!(waited < PATIENCE, "the PostgreSQL cluster does not answer: {error}"),
            }
            let pause = Duration::from_millis(20);
            tokio::time::sleep(pause).await;
            waited += pause;
        };
        self.run(&mut connection, format!("CREATE DATABASE {}", self.template)).await;
        let url = DatabaseUrl::Postgres(Box::new(self.options.clone().database(&self.template)));
        let store = SqlStore::open(&StoreConfig::new(url), Arc::new(SystemClock)).await.expect("the template migrates");
        store.close().await;
    }

    /// A fresh clone of the template.
    pub(super) async fn database(&self) -> PgConnectOptions {
        let number = self.clones.fetch_add(1, Ordering::Relaxed);
        let name = format!("stead_test_{}_{number}", std::process::id());
        let mut connection = PgConnection::connect_with(&self.options).await.expect("the cluster answers");
        self.run(&mut connection, format!("CREATE DATABASE {name} TEMPLATE {}", self.template)).await;
        self.options.clone().database(&name)
    }

    /// Removes a clone, whoever is connected to it.
    pub(super) async fn remove(&self, name: &str) {
        let mut connection = PgConnection::connect_with(&self.options).await.expect("the cluster answers");
        self.run(&mut connection, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
    }

    async fn run(&self, connection: &mut PgConnection, sql: String) {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.expect("the cluster makes and removes databases");
    }
}
