//! The parts of a server, put together: the one place that names every adapter.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use stead_blobs::{LocalBlobs, LocalLogs};
use stead_domain::file::ArtifactLimits;
use stead_engine::{Engine, GitSettings, Limits};
use stead_projects::toolchain::{PythonCandidate, UvCandidate};
use stead_projects::{Layout, OperatingSystem, Toolchain};
use stead_provider_native::NativeProvider;
use stead_registries::RegistryClient;
use stead_store::{SqlStore, StoreConfig};

use super::{native, node, registries as package_registries};
use crate::adapters::{RandomIds, SystemClock};
use crate::config::Settings;
use crate::registries::Registries;

/// What a server is made of once it is put together.
pub(super) struct Parts {
    pub(super) engine: Engine,
    store: Arc<SqlStore>,
    native: Arc<NativeProvider>,
}

impl Parts {
    /// The UHP face.
    pub(super) fn uhp(&self) -> Router {
        stead_face_uhp::router(stead_face_uhp::FaceState { engine: self.engine.clone() })
    }

    /// Ends the sandboxes and closes what holds files; the last step of a stop. Sessions keep their files.
    pub(super) async fn close(&self) {
        if let Err(error) = self.native.shutdown().await {
            tracing::warn!(error = %error, "a sandbox could not be ended; the next start ends it");
        }
        self.store.close().await;
    }
}

/// Opens everything. Nothing runs yet.
pub(super) async fn build(settings: &Settings) -> anyhow::Result<Parts> {
    let data = settings.data_directory.clone();
    let clock = Arc::new(SystemClock);
    let store = SqlStore::open(&StoreConfig::new(settings.database.url.clone()), clock.clone())
        .await
        .with_context(|| format!("failed to open the database {:?}", settings.database.url))?;
    let store = Arc::new(store);
    let found = {
        let settings = settings.clone();
        tokio::task::spawn_blocking(move || Found::look(&settings))
    };
    let Found { blobs, logs, toolchain, system, node, native, packages, registries } =
        found.await.context("the task that opens the data directory failed")??;
    tracing::info!("builds and sessions run on {}", toolchain.base().description);
    let named = registries.hosts.iter().chain(&settings.builds.registry_hosts).map(String::as_str);
    let named = named.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ");
    let network = settings.builds.network.within(&settings.builds.network_limit);
    tracing::info!(%network, registries = named, "what builds reach");
    let native = Arc::new(native);
    let engine = Engine::new(stead_engine::Parts {
        store: store.clone(),
        blobs: Arc::new(blobs),
        logs: Arc::new(logs),
        provider: native.clone(),
        sandboxes: native.clone(),
        registries: Arc::new(packages),
        clock,
        ids: Arc::new(RandomIds),
        layout: Layout::new(data.clone()),
        toolchain,
        system,
        settings: engine_settings(settings, data, registries),
        node,
    });
    Ok(Parts { engine, store, native })
}

/// What is found on this machine's disk.
struct Found {
    blobs: LocalBlobs,
    logs: LocalLogs,
    toolchain: Toolchain,
    system: OperatingSystem,
    node: String,
    native: NativeProvider,
    packages: RegistryClient,
    registries: Registries,
}

impl Found {
    /// Opens and asks; blocking. Tools are asked side by side, since each takes a moment to say anything.
    fn look(settings: &Settings) -> anyhow::Result<Self> {
        let data = &settings.data_directory;
        std::thread::scope(|scope| {
            let registries = scope.spawn(|| Registries::look(&settings.builds, data));
            let toolchain = scope.spawn(|| {
                Toolchain::detect(&uv_candidates(data), &python_candidates(data))
                    .with_node_tools(&data.join("toolchains"))
            });
            let node = node::name(data)?;
            let blobs = LocalBlobs::open(&data.join("blobs")).context("failed to open the blob store")?;
            let logs = LocalLogs::open(&data.join("logs")).context("failed to open the log store")?;
            let native = native::open(settings, &node)?;
            let panicked = |_| anyhow::anyhow!("a thread that looks for tools panicked");
            let registries = registries.join().map_err(panicked)?;
            Ok(Self {
                packages: package_registries::open(settings, &registries)?,
                blobs,
                logs,
                toolchain: toolchain.join().map_err(panicked)?,
                system: OperatingSystem::detect(),
                node,
                native,
                registries,
            })
        })
    }
}

fn engine_settings(settings: &Settings, data: PathBuf, registries: Registries) -> stead_engine::Settings {
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
        registries: registries.hosts,
        turn_time_limit: sessions.time_limit,
        turn_output_bytes: sessions.output_bytes,
        start_wait: sessions.start_wait,
        idle_stop: sessions.idle_stop,
        build_slots: builds.slots,
        build_output_bytes: builds.output_bytes,
        build_time_limit: builds.time_limit,
        layer_age: builds.layer_age,
        python_index: registries.python_index,
        npm_registry: registries.npm_registry,
        build_sandbox: builds.limits,
        collection: settings.collection,
        quotas: settings.quotas,
        git: GitSettings {
            allowed_hosts: settings.git.allowed_hosts.clone(),
            time_limit: settings.git.time_limit,
            slots: settings.git.slots,
        },
        spool: data.join("spool"),
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
