//! The engine: the ports it stands on, and what it keeps in memory.

use std::sync::Arc;

use stead_domain::ids::ServerId;
use stead_domain::ports::{Blobs, BuildSandboxes, Clock, IdSource, Logs, Provider, Registries, Store};
use stead_domain::time::Timestamp;
use stead_projects::{Layout, OperatingSystem};

use crate::builds::RunningBuilds;
use crate::collect::Collector;
use crate::fair_queue::FairQueue;
use crate::fault::Faults;
use crate::hub::Hub;
use crate::limits::{Limits, Settings};
use crate::line::Line;
use crate::operations::InFlight;
use crate::patience::{PatientStore, StoreUse};
use crate::source::ImportPlaces;
use crate::supervisor::Supervisor;
use crate::sweep::Sweeper;
use crate::tools::Tools;
use crate::turns::RunningTurns;
use crate::turnstile::Turnstile;

/// What the engine is made of.
pub struct Parts {
    /// Rows.
    pub store: Arc<dyn Store>,
    /// Bytes.
    pub blobs: Arc<dyn Blobs>,
    /// Raw output and build logs.
    pub logs: Arc<dyn Logs>,
    /// Where environments run.
    pub provider: Arc<dyn Provider>,
    /// Where build steps run.
    pub sandboxes: Arc<dyn BuildSandboxes>,
    /// Who is asked about packages.
    pub registries: Arc<dyn Registries>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Identities and secrets.
    pub ids: Arc<dyn IdSource>,
    /// Where versions and layers lie.
    pub layout: Layout,
    /// What builds install with, and where from.
    pub tools: Arc<Tools>,
    /// The system whose `/usr` sessions have.
    pub system: OperatingSystem,
    /// What the operator decided.
    pub settings: Settings,
    /// The name of this machine in rows.
    pub node: String,
}

/// The use cases. Cheap to clone; every clone is the same engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

/// What every clone of an engine shares. Nothing of it is visible outside of this crate.
pub struct Inner {
    pub(crate) store: Arc<dyn Store>,
    used: Arc<PatientStore>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) logs: Arc<dyn Logs>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) sandboxes: Arc<dyn BuildSandboxes>,
    pub(crate) registries: Arc<dyn Registries>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) layout: Layout,
    pub(crate) tools: Arc<Tools>,
    pub(crate) system: OperatingSystem,
    pub(crate) settings: Settings,
    pub(crate) node: String,
    pub(crate) server: ServerId,
    pub(crate) hub: Hub,
    pub(crate) faults: Faults,
    pub(crate) turns: RunningTurns,
    pub(crate) operations: InFlight,
    pub(crate) line: Line,
    pub(crate) sweeper: Sweeper,
    pub(crate) builds: RunningBuilds,
    pub(crate) projects: Turnstile,
    pub(crate) build_queue: FairQueue,
    pub(crate) collector: Collector,
    pub(crate) imports: ImportPlaces,
    pub(crate) supervisor: Supervisor,
}

impl std::ops::Deref for Engine {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Engine {
    /// Puts the parts together. Nothing runs before [`start`](Engine::start).
    pub fn new(parts: Parts) -> Self {
        let server = ServerId::new(parts.ids.as_ref());
        let store = Arc::new(PatientStore::new(parts.store, parts.settings.store_patience));
        Self(Arc::new(Inner {
            imports: ImportPlaces::new(parts.settings.git.slots),
            build_queue: FairQueue::new(parts.settings.build_slots),
            store: store.clone(),
            used: store,
            blobs: parts.blobs,
            logs: parts.logs,
            provider: parts.provider,
            sandboxes: parts.sandboxes,
            registries: parts.registries,
            clock: parts.clock,
            ids: parts.ids,
            layout: parts.layout,
            tools: parts.tools,
            system: parts.system,
            settings: parts.settings,
            node: parts.node,
            server,
            hub: Hub::default(),
            faults: Faults::from_environment(),
            turns: RunningTurns::default(),
            operations: InFlight::default(),
            line: Line::default(),
            sweeper: Sweeper::default(),
            projects: Turnstile::default(),
            builds: RunningBuilds::default(),
            collector: Collector::default(),
            supervisor: Supervisor::default(),
        }))
    }

    /// Bounds on what a caller may send.
    pub fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// The provider that makes this server's environments.
    pub fn provider(&self) -> &dyn Provider {
        self.0.provider.as_ref()
    }

    /// How often the store was asked.
    pub fn store_use(&self) -> StoreUse {
        self.used.used()
    }

    /// The name of this machine in rows.
    pub fn node(&self) -> &str {
        &self.0.node
    }

    /// Starts nothing new, stops every environment of this machine (their files stay; turns that ran in them end as
    /// interrupted), interrupts every build and returns when no task of the engine is left or `grace` has passed.
    pub async fn stop(&self, grace: std::time::Duration) {
        let deadline = tokio::time::Instant::now() + grace;
        self.supervisor.end();
        let ended = async {
            tokio::join!(self.stop_environments(), self.turns.idle(), self.builds.close(), self.imports.close());
            self.settle_left().await;
        };
        if tokio::time::timeout_at(deadline, ended).await.is_err() {
            tracing::warn!("not everything could be stopped in time; the next start ends what is left");
        }
        self.supervisor.stop(deadline.saturating_duration_since(tokio::time::Instant::now())).await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
