//! A server without sockets, and a client that sends requests to its router.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use stead_blobs::{LocalBlobs, LocalLogs};
use stead_domain::changes::Changes;
use stead_domain::file::ArtifactLimits;
use stead_domain::key::{Caller, Verb};
use stead_domain::network::{BuildNetworkPolicy, NetworkPolicy};
use stead_domain::ports::{Blobs, SandboxLimits, Store};
use stead_engine::{BuildRegistries, CollectionSettings, Engine, GitSettings, Limits, Parts, Quotas, Settings, Tools};
use stead_face_frame::Streams;
use stead_face_uhp::{FaceState, VERSION, router};
use stead_projects::{Layout, OperatingSystem, Toolchain};
use stead_testkit::database::{TestDatabase, chosen};
use stead_testkit::{Samples, SeededIds, SystemClock};
use tempfile::TempDir;
use tower::ServiceExt;

use crate::provider::Nowhere;
use crate::schema::conforms;

/// A server of its own for each test.
pub(crate) struct Server {
    router: Router,
    pub(crate) engine: Engine,
    pub(crate) admin: String,
    /// Rows, for what no request can make on a server on which nothing runs.
    pub(crate) store: Arc<dyn Store>,
    /// Bytes, likewise.
    pub(crate) blobs: Arc<dyn Blobs>,
    _database: TestDatabase,
    _data: TempDir,
}

/// An answer, read to its end.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {:?}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The body of a good answer.
    #[track_caller]
    pub(crate) fn good(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text());
        self.json()
    }

    /// Checks the envelope of a refusal, and gives what it says.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        let body = conforms("ErrorEnvelope", &self.json());
        assert_eq!(body["error"]["code"], code, "{body}");
        for key in ["type", "code", "message", "param", "detail"] {
            assert!(body["error"].as_object().unwrap().contains_key(key), "{key} is missing in {body}");
        }
        assert_eq!(self.header("content-type"), "application/json; charset=utf-8");
        body["error"].clone()
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// A server with other settings.
    pub(crate) async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let (database, data) = (chosen().await, TempDir::with_prefix("stead-uhp-").unwrap());
        let path = data.path().to_path_buf();
        let store: Arc<dyn Store> = Arc::new(database.open().await);
        let blobs: Arc<dyn Blobs> = Arc::new(LocalBlobs::open(&path.join("blobs")).unwrap());
        let mut settings = Settings {
            limits: Limits { file_bytes: 1000, upload_bytes: 1000, json_bytes: 10_000, ..Limits::default() },
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
            quotas: Quotas { source_files: Some(300), ..Quotas::default() },
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
            store_patience: Settings::STORE_PATIENCE,
        };
        change(&mut settings);
        let engine = Engine::new(Parts {
            store: store.clone(),
            blobs: blobs.clone(),
            logs: Arc::new(LocalLogs::open(&path.join("logs")).unwrap()),
            provider: Arc::new(Nowhere),
            sandboxes: Arc::new(Nowhere),
            registries: Arc::new(Nowhere),
            clock: Arc::new(SystemClock),
            ids: Arc::new(SeededIds::new(11)),
            layout: Layout::new(path.clone()),
            tools: Arc::new(Tools::known(Toolchain::detect(&[], &[]), BuildRegistries::default())),
            system: OperatingSystem { name: "Nowhere".to_owned(), version: String::new() },
            settings,
            node: "node".to_owned(),
        });
        let admin = engine.bootstrap().await.unwrap().admin_secret.unwrap();
        engine.start().await.unwrap();
        let router = router(FaceState { engine: engine.clone(), streams: Streams::default() });
        Self { router, engine, admin, store, blobs, _database: database, _data: data }
    }

    pub(crate) async fn caller(&self) -> Caller {
        self.engine.authenticate(&self.admin).await.unwrap()
    }

    /// A key with these verbs alone.
    pub(crate) async fn key(&self, verbs: &[Verb]) -> String {
        self.engine.key_create(&self.caller().await, None, "test", verbs.to_vec()).await.unwrap().1
    }

    /// An admin key of another workspace.
    pub(crate) async fn stranger(&self) -> String {
        let other = Samples::new(12);
        self.store.commit(Changes::new().fact(other.workspace())).await.unwrap();
        self.engine.admin_key(other.workspace_id).await.unwrap()
    }

    /// Sends a request as it is. Every answer must name the version and the request.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let path = request.uri().to_string();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let answer = Answer {
            status: parts.status,
            headers: parts.headers,
            bytes: body.collect().await.unwrap().to_bytes().to_vec(),
        };
        assert_eq!(answer.header("uhp-version"), VERSION, "{path}");
        assert!(!answer.header("x-request-id").is_empty(), "{path}");
        answer
    }

    /// Sends a request with the admin key.
    pub(crate) async fn call(&self, method: Method, path: &str, body: impl Into<Body>) -> Answer {
        let request = self.request(method, path).body(body.into()).unwrap();
        self.send(request).await
    }

    /// A request with the admin key.
    pub(crate) fn request(&self, method: Method, path: &str) -> http::request::Builder {
        Request::builder().method(method).uri(path).header("authorization", format!("Bearer {}", self.admin))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, Body::empty()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, Body::empty()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, path, body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.call(Method::PUT, path, body.to_string()).await
    }

    /// The id of a new environment.
    pub(crate) async fn environment(&self, name: &str) -> String {
        let body = self.post("/v1/environments", json!({"name": name})).await.good();
        conforms("Environment", &body)["id"].as_str().unwrap().to_owned()
    }
}
