//! Rows that are right in themselves: each with a fresh identity, made at one instant, belonging to one workspace.

use stead_domain::agent::{Agent, Harness};
use stead_domain::attachment::{Attachment, Pin};
use stead_domain::build::{Build, Layer, Package};
use stead_domain::declared::{Declared, PackageManager};
use stead_domain::environment::Environment;
use stead_domain::event::{Event, EventKind};
use stead_domain::file::{Artifact, Upload};
use stead_domain::idempotency::{IdempotencyRecord, IdempotencyScope};
use stead_domain::key::{Key, SecretDigest, Verb};
use stead_domain::network::{BuildNetworkPolicy, NetworkPolicy};
use stead_domain::operation::Operation;
use stead_domain::project::Project;
use stead_domain::session::{Face, NewTurn, Session};
use stead_domain::source::{EntryKind, SourceEntry, TreeSize};
use stead_domain::turn::{Turn, TurnInput};
use stead_domain::workspace::Workspace;
use stead_domain::{
    AgentId, AttachmentId, BlobId, EnvironmentId, FileId, KeyId, LayerId, OperationId, ProjectId, SessionId, Slug,
    SourcePath, Timestamp, TurnId, WorkspaceId,
};

use crate::ids::SeededIds;

/// Makes rows of one workspace.
#[derive(Debug)]
pub struct Samples {
    /// Where identities come from.
    pub ids: SeededIds,
    /// The tenant of every row.
    pub workspace_id: WorkspaceId,
    /// When every row was made.
    pub at: Timestamp,
}

/// A content address that follows from a number.
pub fn blob(number: u64) -> BlobId {
    let mut bytes = [0xab; 32];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    BlobId::from_bytes(bytes)
}

/// A file of a source.
pub fn source_file(path: &str, size: u64) -> SourceEntry {
    let kind = EntryKind::File { executable: size.is_multiple_of(2), size, blob: blob(size) };
    SourceEntry { kind, ..source_directory(path) }
}

/// A directory of a source.
pub fn source_directory(path: &str) -> SourceEntry {
    let path = SourcePath::parse(path).expect("tests name plain paths");
    SourceEntry { path, kind: EntryKind::Directory, modified_at: Timestamp::from_micros(5) }
}

impl Samples {
    /// Rows that follow from a seed, in a workspace of their own.
    pub fn new(seed: u64) -> Self {
        let ids = SeededIds::new(seed);
        let workspace_id = WorkspaceId::new(&ids);
        Self { ids, workspace_id, at: Timestamp::from_micros(1_700_000_000_000_001) }
    }

    /// The workspace, whose name is its own alone.
    pub fn workspace(&self) -> Workspace {
        Workspace { id: self.workspace_id, name: format!("of {}", self.workspace_id), created_at: self.at }
    }

    /// A key with every verb.
    pub fn key(&self, digest: &str) -> Key {
        Key {
            id: KeyId::new(&self.ids),
            workspace_id: self.workspace_id,
            name: "key".into(),
            digest: SecretDigest(digest.into()),
            verbs: Verb::ALL.to_vec(),
            created_at: self.at,
            revoked_at: None,
            row_version: 1,
        }
    }

    /// An empty project.
    pub fn project(&self, name: &str) -> Project {
        Project {
            id: ProjectId::new(&self.ids),
            workspace_id: self.workspace_id,
            name: name.into(),
            slug: Slug::from_name(name).expect("tests give projects names with a segment"),
            description: "what it is".into(),
            entry: "python main.py".into(),
            declared: Declared {
                pip: Declared::read(PackageManager::Pip, &["six==1.17.0"]).expect("it is a package"),
                ..Declared::default()
            },
            build_network: None,
            active: None,
            latest: 0,
            source: TreeSize { files: 3, bytes: 5000 },
            source_revision: 2,
            created_at: self.at,
            updated_at: self.at,
            deleted_at: None,
            row_version: 1,
        }
    }

    /// The next build of a project, and the project that counts it.
    pub fn build(&self, project: Project, node: &str) -> (Project, Build) {
        project
            .admit_build(None, blob(7), false, BuildNetworkPolicy::Registries, node, self.at)
            .expect("nothing else is building")
    }

    /// A layer of a project.
    pub fn layer(&self, project: &Project, node: &str, key: BlobId) -> Layer {
        Layer {
            id: LayerId::new(&self.ids),
            workspace_id: self.workspace_id,
            project_id: project.id,
            key,
            node: node.into(),
            step: "python packages".into(),
            packages: vec![Package { manager: "pip".into(), name: "six".into(), version: "1.17.0".into() }],
            size: TreeSize { files: 4, bytes: 4096 },
            created_at: self.at,
        }
    }

    /// An agent.
    pub fn agent(&self) -> Agent {
        Agent {
            id: AgentId::new(&self.ids),
            workspace_id: self.workspace_id,
            name: "agent".into(),
            harness: Harness::Shell,
            instructions: "be brief".into(),
            default_model: None,
            project_id: None,
            disabled_tools: vec![],
            max_step: None,
            time_limit: None,
            network: None,
            created_at: self.at,
            updated_at: self.at,
            deleted_at: None,
            row_version: 1,
        }
    }

    /// A session before its first turn.
    pub fn session(&self, agent: &Agent) -> Session {
        Session::open(SessionId::new(&self.ids), Face::Uhp, agent, "echo hello", self.at)
    }

    /// The next turn of a session, which counts it and holds it as active.
    pub fn turn(&self, session: &mut Session, agent: &Agent) -> Turn {
        let new = NewTurn {
            id: TurnId::new(&self.ids),
            input: TurnInput { text: "echo hello".into(), ..TurnInput::default() },
            previous: None,
            reads: None,
            time_limit: None,
            network: NetworkPolicy::Enabled,
            ignored_fields: vec![],
            requested_model: None,
            store: true,
        };
        session.admit(agent, new, self.at).expect("no turn of the session is active")
    }

    /// The next event of a session.
    pub fn event(&self, session: &mut Session, turn: &Turn, kind: EventKind) -> Event {
        session.event(turn.id, kind, self.at)
    }

    /// An environment, and the operation that makes it.
    pub fn environment(&self, node: &str) -> (Environment, Operation) {
        Environment::create(
            EnvironmentId::new(&self.ids),
            OperationId::new(&self.ids),
            self.workspace_id,
            "native",
            node,
            NetworkPolicy::Enabled,
            "{}",
            self.at,
        )
    }

    /// A session's use of an environment.
    pub fn attachment(&self, session: &Session, environment: &Environment) -> Attachment {
        Attachment {
            id: AttachmentId::new(&self.ids),
            workspace_id: self.workspace_id,
            session_id: session.id,
            environment_id: environment.id,
            name: Attachment::PRIMARY.into(),
            pins: vec![Pin { project_id: ProjectId::new(&self.ids), version: 4 }],
            created_at: self.at,
            row_version: 1,
        }
    }

    /// An uploaded file.
    pub fn upload(&self) -> Upload {
        Upload {
            id: FileId::new(&self.ids),
            workspace_id: self.workspace_id,
            filename: "data.csv".into(),
            purpose: "user_data".into(),
            media_type: "text/csv".into(),
            bytes: 12,
            blob: blob(12),
            created_at: self.at,
        }
    }

    /// A file that a turn left.
    pub fn artifact(&self, turn: &Turn, path: &str) -> Artifact {
        Artifact {
            id: FileId::new(&self.ids),
            workspace_id: self.workspace_id,
            session_id: turn.session_id,
            turn_id: turn.id,
            path: path.into(),
            bytes: 3,
            blob: blob(3),
            created_at: self.at,
        }
    }

    /// What makes a retry find a turn.
    pub fn idempotency(&self, turn: &Turn, key: &str) -> IdempotencyRecord {
        let scope = IdempotencyScope {
            face: "uhp",
            workspace_id: self.workspace_id,
            route: "POST /v1/responses",
            key: key.into(),
        };
        IdempotencyRecord { scope, fingerprint: "fingerprint".into(), turn_id: turn.id, created_at: self.at }
    }
}
