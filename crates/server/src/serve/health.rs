//! Whether the server lives, and whether it is ready for requests.
//!
//! `GET /healthz` answers 200 as long as the process answers at all: who gets no answer restarts it. `GET /readyz` answers 200
//! when requests can be carried out, and else 503, with each check's word:
//!
//! | check | fails |
//! |---|---|
//! | `recovery` | until what an earlier process left is settled |
//! | `draining` | from the moment when the server stops |
//! | `store` | when the database does not read and begin a write within a second |
//! | `data_directory` | when no file can be written there, or only with the room that was kept back |
//! | `provider` | when no sandbox could be launched |
//!
//! Both are for anybody, so a look is shared by all who ask within a second, and no answer says more than these words.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use stead_domain::changes::Changes;
use stead_domain::ports::Store;
use stead_provider_native::NativeProvider;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a look stays good.
const FRESH: Duration = Duration::from_secs(1);
/// How long a check may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// What is written to find out whether anything can be.
const TRIAL: &str = ".readyz";

/// What the checks say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Report {
    status: &'static str,
    checks: Checks,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Checks {
    recovery: &'static str,
    draining: &'static str,
    store: &'static str,
    data_directory: &'static str,
    provider: &'static str,
}

const OK: &str = "ok";

impl Report {
    pub(super) fn is_ready(&self) -> bool {
        self.status == "ready"
    }
}

/// Knows what can be known of the server's health.
pub(super) struct Health {
    store: Arc<dyn Store>,
    native: Arc<NativeProvider>,
    directory: PathBuf,
    recovered: AtomicBool,
    draining: CancellationToken,
    /// Whether new work is refused for want of room.
    short: Arc<AtomicBool>,
    looks: Mutex<Looks>,
}

#[derive(Default)]
struct Looks {
    last: Option<(Instant, Slow)>,
    /// A question to the store that was not answered yet: no other is asked meanwhile.
    asked: Option<JoinHandle<bool>>,
    /// The same of the disk.
    written: Option<JoinHandle<bool>>,
}

/// The checks that take a while.
#[derive(Debug, Clone, Copy)]
struct Slow {
    store: &'static str,
    data_directory: &'static str,
}

impl Health {
    /// `draining` is cancelled when the server stops.
    pub(super) fn new(
        store: Arc<dyn Store>,
        native: Arc<NativeProvider>,
        directory: PathBuf,
        draining: CancellationToken,
        short: Arc<AtomicBool>,
    ) -> Arc<Self> {
        let (recovered, looks) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Self { store, native, directory, recovered, draining, short, looks })
    }

    /// What an earlier process left is settled.
    pub(super) fn recovered(&self) {
        self.recovered.store(true, Ordering::SeqCst);
    }

    /// What the checks say now, or said within the last second.
    pub(super) async fn report(&self) -> Report {
        let slow = self.slow().await;
        let word = |fine: bool, otherwise: &'static str| if fine { OK } else { otherwise };
        let checks = Checks {
            recovery: word(self.recovered.load(Ordering::SeqCst), "not done yet"),
            draining: word(!self.draining.is_cancelled(), "the server stops"),
            store: slow.store,
            data_directory: match slow.data_directory {
                OK if self.short.load(Ordering::SeqCst) => "no room is left",
                word => word,
            },
            provider: word(self.native.is_usable(), "sandboxes cannot be launched"),
        };
        let words = [checks.recovery, checks.draining, checks.store, checks.data_directory, checks.provider];
        let status = if words.iter().all(|word| *word == OK) { "ready" } else { "not_ready" };
        Report { status, checks }
    }

    async fn slow(&self) -> Slow {
        let mut looks = self.looks.lock().await;
        if let Some((at, slow)) = looks.last
            && at.elapsed() < FRESH
        {
            return slow;
        }
        let Looks { asked, written, .. } = &mut *looks;
        let asking = asked.get_or_insert_with(|| {
            let store = Arc::clone(&self.store);
            tokio::spawn(async move { answers(store.as_ref()).await })
        });
        let writing = written.get_or_insert_with(|| {
            let path = self.directory.join(TRIAL);
            tokio::task::spawn_blocking(move || is_writable(&path))
        });
        let (store, disk) =
            tokio::join!(tokio::time::timeout(PATIENCE, asking), tokio::time::timeout(PATIENCE, writing));
        if store.is_ok() {
            *asked = None;
        }
        if disk.is_ok() {
            *written = None;
        }
        let slow = Slow {
            store: match store {
                Ok(Ok(true)) => OK,
                Ok(_) => "the database does not answer",
                Err(_) => "the database does not answer in time",
            },
            data_directory: match disk {
                Ok(Ok(true)) => OK,
                Ok(_) => "no file can be written",
                Err(_) => "no file can be written in time",
            },
        };
        looks.last = Some((Instant::now(), slow));
        slow
    }
}

/// Whether the database reads, and begins a write: a commit of nothing waits for everything that one of something waits for,
/// besides the disk.
async fn answers(store: &dyn Store) -> bool {
    store.workspace_first().await.is_ok() && store.commit(Changes::new()).await.is_ok()
}

/// A full disk refuses the first block of a file.
fn is_writable(path: &std::path::Path) -> bool {
    let written = std::fs::write(path, [b'.'; 4096]);
    let removed = std::fs::remove_file(path);
    written.is_ok() && removed.is_ok()
}
