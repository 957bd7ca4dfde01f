//! A world that outlives server processes, and the processes.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use stead_blobs::{LocalBlobs, LocalLogs};
use stead_domain::declared::PackageSpec;
use stead_domain::event::EventKind;
use stead_domain::file::ArtifactLimits;
use stead_domain::key::Caller;
use stead_domain::network::{BuildNetworkPolicy, NetworkPolicy};
use stead_domain::ports::{Checked, PortFuture, Registries, SandboxLimits, Store};
use stead_domain::session::Face;
use stead_domain::turn::{TurnInput, TurnState};
use stead_domain::{AgentId, TurnId};
use stead_engine::{
    AgentText, BuildRegistries, CollectionSettings, Engine, GitSettings, Limits, Parts, ProjectChoice, Quotas,
    Settings, StartedTurn, Tools, TurnRequest, TurnView,
};
use stead_projects::{Layout, OperatingSystem, Toolchain};
use stead_testkit::database::sqlite;
use stead_testkit::doubles::{FaultyLogs, FaultyStore, Machine};
use stead_testkit::{SeededIds, SystemClock, TestDatabase, rows};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The longest that anything in these tests may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// What outlives a server process.
pub(crate) struct World {
    pub(crate) machine: Machine,
    database: TestDatabase,
    data: TempDir,
    made: AtomicU64,
}

/// One server process.
pub(crate) struct Process {
    runtime: Option<Runtime>,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) logs: Arc<FaultyLogs>,
    pub(crate) caller: Caller,
    pub(crate) agent: AgentId,
    machine: Machine,
}

struct NoRegistries;

impl Registries for NoRegistries {
    fn check<'a>(&'a self, _: &'a PackageSpec) -> PortFuture<'a, Checked> {
        Box::pin(std::future::ready(Checked::unasked("there is none")))
    }
}

fn settings(path: &std::path::Path) -> Settings {
    Settings {
        limits: Limits::default(),
        artifacts: ArtifactLimits::default(),
        session_network: NetworkPolicy::Disabled,
        build_network: BuildNetworkPolicy::Enabled,
        build_network_limit: BuildNetworkPolicy::Enabled,
        turn_time_limit: Duration::from_mins(1),
        turn_output_bytes: 1 << 20,
        build_output_bytes: 1 << 20,
        start_wait: Duration::from_mins(1),
        idle_stop: Duration::from_mins(1),
        build_slots: 1,
        build_time_limit: Duration::from_mins(1),
        collection: CollectionSettings {
            every: Duration::from_hours(1),
            grace: Duration::from_hours(1),
            keep_versions: 0,
            uploads: None,
        },
        quotas: Quotas::default(),
        layer_age: Duration::from_mins(1),
        audit_keep: Duration::from_hours(1),
        build_sandbox: SandboxLimits {
            memory_bytes: 1 << 30,
            processes: 100,
            cpu_millis: 1000,
            open_files: 100,
            disk_bytes: 1 << 30,
            disk_files: 1000,
        },
        git: GitSettings { allowed_hosts: Vec::new(), time_limit: Duration::from_mins(1), slots: 1 },
        spool: path.join("spool"),
        handovers: path.join("handovers"),
        store_patience: Duration::from_millis(300),
    }
}

impl World {
    pub(crate) fn new(machine: Machine) -> Self {
        let data = TempDir::with_prefix("stead-engine-").unwrap();
        Self { machine, database: sqlite(), data, made: AtomicU64::new(0) }
    }

    pub(crate) fn handovers(&self) -> PathBuf {
        self.data.path().join("handovers")
    }

    /// How many rows of each table there are.
    pub(crate) fn rows(&self) -> BTreeMap<String, i64> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(rows::counts(&self.database))
    }

    /// The logs on disk.
    pub(crate) fn logs(&self) -> usize {
        let mut places = vec![self.data.path().join("logs")];
        let mut files = 0;
        while let Some(place) = places.pop() {
            for entry in std::fs::read_dir(place).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => places.push(entry.path()),
                    false => files += 1,
                }
            }
        }
        files
    }

    /// A server process that has settled what the one before left.
    pub(crate) fn process(&self) -> Process {
        self.process_with(|_| {})
    }

    pub(crate) fn process_with(&self, change: impl FnOnce(&mut Settings)) -> Process {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let path = self.data.path().to_path_buf();
        let seed = self.made.fetch_add(1, Ordering::SeqCst) + 1;
        let mut settings = settings(&path);
        change(&mut settings);
        let started = runtime.block_on(async {
            let sql: Arc<dyn Store> = Arc::new(self.database.open().await);
            let store = FaultyStore::new(sql);
            let logs = FaultyLogs::new(Arc::new(LocalLogs::open(&path.join("logs")).unwrap()));
            let engine = Engine::new(Parts {
                store: store.clone(),
                blobs: Arc::new(LocalBlobs::open(&path.join("blobs")).unwrap()),
                logs: logs.clone(),
                provider: Arc::new(self.machine.clone()),
                sandboxes: Arc::new(self.machine.clone()),
                registries: Arc::new(NoRegistries),
                clock: Arc::new(SystemClock),
                ids: Arc::new(SeededIds::new(seed)),
                layout: Layout::new(path.clone()),
                tools: Arc::new(Tools::known(Toolchain::detect(&[], &[]), BuildRegistries::default())),
                system: OperatingSystem { name: "Nowhere".to_owned(), version: String::new() },
                settings,
                node: "node".to_owned(),
            });
            let key = path.join("key");
            if let Some(secret) = engine.bootstrap().await.unwrap().admin_secret {
                std::fs::write(&key, secret).unwrap();
            }
            let caller = engine.authenticate(&std::fs::read_to_string(&key).unwrap()).await.unwrap();
            engine.start().await.unwrap();
            let text = AgentText { harness: Some("shell".to_owned()), ..AgentText::default() };
            let agent = engine.agent_create(&caller, text).await.unwrap().id;
            (engine, store, logs, caller, agent)
        });
        let (engine, store, logs, caller, agent) = started;
        Process { runtime: Some(runtime), engine, store, logs, caller, agent, machine: self.machine.clone() }
    }
}

impl Process {
    /// Waits for `work`, but not for ever.
    #[track_caller]
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        let runtime = self.runtime.as_ref().unwrap();
        runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await.expect("it takes too long") })
    }

    pub(crate) fn request(&self, script: &str) -> TurnRequest {
        TurnRequest {
            face: Face::Uhp,
            agent_id: Some(self.agent),
            previous: None,
            project: ProjectChoice::Usual,
            version: None,
            input: TurnInput { text: script.to_owned(), ..TurnInput::default() },
            time_limit: None,
            network: None,
            model: None,
            store: true,
            ignored_fields: Vec::new(),
            retry: None,
        }
    }

    /// Starts a turn in a session of its own.
    pub(crate) fn start(&self, script: &str) -> StartedTurn {
        self.wait(self.engine.turn_start(&self.caller, self.request(script))).unwrap()
    }

    /// The same, and returns when its script runs.
    pub(crate) fn run(&self, script: &str) -> TurnId {
        let turn = self.start(script).turn.id;
        self.wait(self.machine.runs(turn));
        turn
    }

    pub(crate) fn end_of(&self, turn: TurnId) -> TurnView {
        self.wait(self.engine.turn_wait(&self.caller, turn)).unwrap()
    }

    /// Returns when readers were shown this text of a turn, and nothing else.
    pub(crate) fn shows(&self, turn: TurnId, text: &str) {
        self.wait(async {
            let mut events = self.engine.turn_events(&self.caller, turn, 0).await.unwrap();
            let mut shown = String::new();
            while shown != text {
                assert!(text.starts_with(&shown), "{shown:?} was shown instead of {text:?}");
                match events.next().await.expect("the turn ended before").unwrap().kind {
                    EventKind::TextDelta { text, .. } => shown.push_str(&text),
                    EventKind::TurnEnded => panic!("the turn ended when {shown:?} was shown"),
                    _ => {}
                }
            }
        });
    }

    /// Ends as a crash does: nothing of it runs any more, and its connections are cut.
    pub(crate) fn crash(mut self) {
        self.runtime.take().unwrap().shutdown_timeout(Duration::from_secs(5));
        self.machine.lose_connections();
    }

    /// Ends in good order, leaving what runs to the next one.
    pub(crate) fn hand_over(self) {
        self.wait(self.engine.hand_over(Duration::from_secs(10)));
        self.crash();
    }
}

/// What a turn came to: its state and its text.
#[track_caller]
pub(crate) fn came_to(view: &TurnView, state: TurnState, text: &str) {
    let failure = view.turn.outcome.failure.as_ref().map(|failure| failure.message.as_str());
    assert_eq!(view.turn.state, state, "{failure:?}");
    let said: String = view.turn.outcome.items.iter().map(stead_domain::item::Item::text).collect();
    assert_eq!(said, text);
    assert_eq!(view.turn.outcome.output_bytes, text.len() as u64);
}
