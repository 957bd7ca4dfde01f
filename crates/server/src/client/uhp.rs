//! The parts of UHP's answers that commands show. A client reads what it knows and ignores the rest (UHP §2), so these name
//! less than the face sends.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(crate) struct Environments {
    pub(crate) environments: Vec<Environment>,
}

/// A project.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Environment {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) slug: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) entry: String,
    pub(crate) status: String,
    pub(crate) mount: String,
    pub(crate) version: Option<u32>,
    #[serde(default, rename = "latestVersion")]
    pub(crate) latest_version: Option<u32>,
    pub(crate) files: Size,
    #[serde(default)]
    pub(crate) packages: Vec<PackageItem>,
    #[serde(default)]
    pub(crate) declared: Declared,
    #[serde(default)]
    pub(crate) runtime: Interpreter,
    #[serde(default)]
    pub(crate) stead_build_network: serde_json::Value,
    #[serde(default)]
    pub(crate) build: Option<Version>,
}

/// What a project declares besides its manifests.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Declared {
    pub(crate) pip: Vec<DeclaredItem>,
    pub(crate) npm: Vec<DeclaredItem>,
    pub(crate) apt: Vec<DeclaredItem>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct DeclaredItem {
    pub(crate) spec: String,
}

/// The interpreter that a project asks for; empty for the default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Interpreter {
    pub(crate) python: String,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(crate) struct Size {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PackageItem {
    pub(crate) manager: String,
    pub(crate) name: String,
    pub(crate) version: String,
}

/// One build in a project's history.
#[derive(Debug, Clone, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the protocol names the field")]
pub(crate) struct Version {
    pub(crate) version: u32,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) stage: String,
    pub(crate) started_at: Option<i64>,
    pub(crate) finished_at: Option<i64>,
    #[serde(default)]
    pub(crate) error: String,
    #[serde(default)]
    pub(crate) packages: Option<u64>,
    #[serde(default)]
    pub(crate) bytes: Option<u64>,
    #[serde(default)]
    pub(crate) stead_removed_at: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Versions {
    pub(crate) active: Option<u32>,
    pub(crate) versions: Vec<Version>,
}

/// A project's source.
#[derive(Debug, Deserialize)]
pub(crate) struct FileTree {
    pub(crate) entries: Vec<TreeEntry>,
    /// Where the next page begins, when there is one.
    #[serde(default)]
    pub(crate) stead_after: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TreeEntry {
    pub(crate) path: String,
    pub(crate) dir: bool,
    pub(crate) bytes: u64,
    pub(crate) mtime: i64,
    #[serde(default)]
    pub(crate) stead_executable: bool,
}

/// What an import did.
#[derive(Debug, Deserialize)]
pub(crate) struct ImportResult {
    pub(crate) written: u64,
    pub(crate) skipped: u64,
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// Names the first of the skipped.
    #[serde(default)]
    pub(crate) stead_skipped: Vec<Skipped>,
    /// What else it found.
    #[serde(default)]
    pub(crate) stead_report: serde_json::Value,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Skipped {
    pub(crate) name: String,
    pub(crate) reason: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Harnesses {
    pub(crate) harnesses: Vec<HarnessItem>,
}

/// An agent.
#[derive(Debug, Deserialize)]
pub(crate) struct HarnessItem {
    pub(crate) id: String,
    pub(crate) base: String,
    #[serde(default)]
    pub(crate) environment: String,
    #[serde(default, rename = "timeoutSeconds")]
    pub(crate) timeout_seconds: Option<u64>,
    #[serde(default)]
    pub(crate) stead_network: Option<serde_json::Value>,
}

/// A task.
#[derive(Debug, Deserialize)]
pub(crate) struct Response {
    pub(crate) id: String,
    pub(crate) metadata: ResponseMetadata,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ResponseMetadata {
    pub(crate) session_id: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Sessions {
    pub(crate) sessions: Vec<SessionItem>,
    pub(crate) next_cursor: Option<String>,
}

/// A session.
#[derive(Debug, Deserialize)]
pub(crate) struct SessionItem {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) environment: Option<String>,
    #[serde(default)]
    pub(crate) created_at: Option<i64>,
    #[serde(default)]
    pub(crate) updated_at: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Turns {
    pub(crate) turns: Vec<TurnItem>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TurnItem {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) user: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Files {
    pub(crate) files: Vec<FileItem>,
}

/// A file that a session's turns left.
#[derive(Debug, Deserialize)]
pub(crate) struct FileItem {
    pub(crate) id: String,
    pub(crate) container_id: String,
    pub(crate) filename: String,
    pub(crate) bytes: u64,
    #[serde(default)]
    pub(crate) created_at: Option<i64>,
}

/// What a registry says of a package.
#[derive(Debug, Deserialize)]
pub(crate) struct PackageCheck {
    pub(crate) manager: String,
    pub(crate) name: String,
    pub(crate) exists: Option<bool>,
    #[serde(default)]
    pub(crate) latest: String,
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) error: String,
    /// What it would install now.
    #[serde(default)]
    pub(crate) stead_fitting: String,
}

/// What a build can be made with.
#[derive(Debug, Deserialize)]
pub(crate) struct Runtimes {
    #[serde(default)]
    pub(crate) python: Vec<String>,
    #[serde(default)]
    pub(crate) node: Vec<String>,
    #[serde(default)]
    pub(crate) os: System,
    #[serde(default)]
    pub(crate) apt: bool,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct System {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) version: String,
}

/// An answer whose members nobody looks at.
#[derive(Debug, Deserialize)]
pub(crate) struct Anything {}
