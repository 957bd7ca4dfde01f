//! The parts of a server, put together: the one place that names every adapter.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use metrics_exporter_prometheus::PrometheusHandle;
use stead_blobs::{LocalBlobs, LocalLogs};
use stead_domain::file::ArtifactLimits;
use stead_engine::{Engine, GitSettings, Limits};
use stead_face_frame::Streams;
use stead_projects::toolchain::{PythonCandidate, UvCandidate};
use stead_projects::{Layout, OperatingSystem};
use stead_provider_native::NativeProvider;
use stead_store::{SqlStore, StoreConfig};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ballast::Ballast;
use super::health::Health;
use super::metrics::Sampled;
use super::monitoring::Monitoring;
use super::tools::Waiting;
use super::{native, node};
use crate::adapters::{RandomIds, SystemClock};
use crate::config::Settings;

/// What a server is made of once it is put together.
pub(super) struct Parts {
    pub(super) engine: Engine,
    store: Arc<SqlStore>,
    native: Arc<NativeProvider>,
    /// How long sessions wait for the next process.
    orphan_grace: Duration,
    waiting: Waiting,
}

impl Parts {
    /// The UHP face.
    pub(super) fn uhp(&self, streams: Streams) -> Router {
        stead_face_uhp::router(stead_face_uhp::FaceState { engine: self.engine.clone(), streams })
    }

    /// Begins to ask this machine's tools. They are programs that take the cores for a while, so the server is ready first.
    pub(super) fn look_for_tools(&self, settings: &Settings) {
        self.waiting.look(settings);
    }

    /// Lets everything go on without this process, for the next one to take over, when builds have ended or `until` has come. Says
    /// whether it could.
    pub(super) async fn hand_over(&self, until: Instant, grace: Duration) -> bool {
        self.engine.wind_builds_down(until).await;
        // Without a grace nothing outlives this process.
        if self.orphan_grace.is_zero() {
            return false;
        }
        self.engine.hand_over(grace).await;
        self.native.let_go().await;
        true
    }

    /// Returns when another server has taken the database, with what is known of that one.
    pub(super) async fn database_taken(&self) -> String {
        self.store.taken().await
    }

    /// Leaves everything as it is, to whoever comes: nothing of it can be noted down. Without a grace nothing outlives this process.
    pub(super) async fn abandon(&self) {
        if self.orphan_grace.is_zero() {
            self.end_sandboxes().await;
        } else {
            self.native.let_go().await;
        }
    }

    /// What those see who watch this server. `draining` is cancelled when it stops.
    pub(super) fn monitoring(
        &self,
        numbers: PrometheusHandle,
        directory: PathBuf,
        draining: CancellationToken,
        ballast: &Ballast,
    ) -> Monitoring {
        let (store, native, engine) = (self.store.clone(), self.native.clone(), self.engine.clone());
        let health = Health::new(store.clone(), native.clone(), directory, draining, ballast.short());
        let metrics = Sampled::new(numbers, store, native, engine.node().to_owned(), health.clone());
        Monitoring { health, metrics: Arc::new(metrics), engine }
    }

    /// Ends the sandboxes. Sessions keep their files.
    pub(super) async fn end_sandboxes(&self) {
        if let Err(error) = self.native.shutdown().await {
            tracing::warn!(error = %error, "a sandbox could not be ended; the next start ends it");
        }
    }

    /// Closes what holds files; the last step of a stop.
    pub(super) async fn close(&self) {
        self.store.close().await;
    }
}

/// Opens everything. Nothing runs yet.
pub(super) async fn build(settings: &Settings, ballast: &Arc<Ballast>) -> anyhow::Result<Parts> {
    let data = settings.data_directory.clone();
    let waiting = Waiting::default();
    let clock = Arc::new(SystemClock);
    let found = {
        let settings = settings.clone();
        tokio::task::spawn_blocking(move || Found::look(&settings))
    };
    let config = StoreConfig::new(settings.database.url.clone()).sole(own_name()).relieved(ballast.clone());
    let store = SqlStore::open(&config, clock.clone())
        .await
        .with_context(|| format!("failed to open the database {:?}", settings.database.url))?;
    let store = Arc::new(store);
    let Found { blobs, logs, node, native } =
        found.await.context("the task that opens the data directory failed")??;
    let native = Arc::new(native);
    let engine = Engine::new(stead_engine::Parts {
        store: store.clone(),
        blobs: Arc::new(blobs),
        logs: Arc::new(logs),
        provider: native.clone(),
        sandboxes: native.clone(),
        registries: waiting.packages.clone(),
        clock,
        ids: Arc::new(RandomIds),
        layout: Layout::new(data.clone()),
        tools: waiting.tools.clone(),
        system: OperatingSystem::detect(),
        settings: engine_settings(settings, data),
        node,
    });
    Ok(Parts { engine, store, native, orphan_grace: settings.sessions.orphan_grace, waiting })
}

/// What this server is called where another one wants its database.
fn own_name() -> String {
    let machine = rustix::system::uname();
    format!("stead, process {} on {}", std::process::id(), machine.nodename().to_string_lossy())
}

/// What is found on this machine's disk.
struct Found {
    blobs: LocalBlobs,
    logs: LocalLogs,
    node: String,
    native: NativeProvider,
}

impl Found {
    /// Opens; blocking.
    fn look(settings: &Settings) -> anyhow::Result<Self> {
        let data = &settings.data_directory;
        let node = node::name(data)?;
        let blobs = LocalBlobs::open(&data.join("blobs")).context("failed to open the blob store")?;
        let logs = LocalLogs::open(&data.join("logs")).context("failed to open the log store")?;
        let native = native::open(settings, &node)?;
        Ok(Self { blobs, logs, node, native })
    }
}

fn engine_settings(settings: &Settings, data: PathBuf) -> stead_engine::Settings {
    let (sessions, builds, limits) = (&settings.sessions, &settings.builds, settings.limits);
    stead_engine::Settings {
        limits: Limits {
            file_bytes: limits.file,
            import_bytes: limits.import,
            import_expanded_bytes: limits.import_expanded,
            import_members: limits.import_members,
            upload_bytes: limits.upload,
            json_bytes: limits.json,
            input_bytes: limits.input,
        },
        artifacts: ArtifactLimits::default(),
        session_network: sessions.network.clone(),
        build_network: builds.network.clone(),
        build_network_limit: builds.network_limit.clone(),
        turn_time_limit: sessions.time_limit,
        turn_output_bytes: sessions.output_bytes,
        start_wait: sessions.start_wait,
        idle_stop: sessions.idle_stop,
        build_slots: builds.slots,
        build_output_bytes: builds.output_bytes,
        build_time_limit: builds.time_limit,
        layer_age: builds.layer_age,
        build_sandbox: builds.limits,
        audit_keep: settings.audit_keep,
        collection: settings.collection,
        quotas: settings.quotas,
        git: GitSettings {
            allowed_hosts: settings.git.allowed_hosts.clone(),
            time_limit: settings.git.time_limit,
            slots: settings.git.slots,
        },
        spool: data.join("spool"),
        handovers: data.join("handovers"),
        store_patience: stead_engine::Settings::STORE_PATIENCE,
    }
}

/// The interpreters among the toolchains.
pub(crate) fn python_candidates(data: &Path) -> Vec<PythonCandidate> {
    PythonCandidate::beneath(&data.join("toolchains"))
}

/// Where a uv may lie: toolchains of the data directory are what sandboxes see at `/opt/stead`; the host's `/usr` is theirs.
pub(crate) fn uv_candidates(data: &Path) -> Vec<UvCandidate> {
    let own = UvCandidate { host: data.join("toolchains/uv/bin/uv"), inside: "/opt/stead/uv/bin/uv".to_owned() };
    let system = ["/usr/local/bin/uv", "/usr/bin/uv"];
    std::iter::once(own)
        .chain(system.map(|path| UvCandidate { host: PathBuf::from(path), inside: path.to_owned() }))
        .collect()
}
