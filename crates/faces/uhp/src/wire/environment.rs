//! Environments, their sources and builds (UHP Environments §2 to §4).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_domain::build::{Build, BuildState, Package};
use stead_domain::project::ProjectStatus;
use stead_domain::source::{SourceEntry, TreeSize};
use stead_domain::{Code, Error, ProjectId, Result, Timestamp};
use stead_engine::{ImportReport, ProjectText, ProjectView};

use super::harness::HarnessName;

/// An environment as clients read it: camelCase, milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Environment {
    id: String,
    object: &'static str,
    name: String,
    slug: String,
    description: String,
    entry: String,
    status: &'static str,
    mount: String,
    version: Option<u32>,
    latest_version: Option<u32>,
    files: SourceSize,
    packages: Vec<Package>,
    declared: Declared,
    runtime: Runtime,
    /// Every build; left out of listings.
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<Vec<VersionEntry>>,
    build: Option<VersionEntry>,
    created_at: i64,
    updated_at: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct SourceSize {
    count: u64,
    bytes: u64,
}

/// Packages that the owner asked for beside the manifests: none, as they are not served.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
struct Declared {
    pip: [Value; 0],
    npm: [Value; 0],
    apt: [Value; 0],
}

/// The interpreter that was asked for: the default one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
struct Runtime {
    python: &'static str,
}

impl Environment {
    /// With every build.
    pub fn whole(view: ProjectView) -> Self {
        let versions = view.builds.iter().map(VersionEntry::from).collect();
        Self { versions: Some(versions), ..Self::listed(view) }
    }

    /// As an entry of a list.
    pub fn listed(view: ProjectView) -> Self {
        let packages = view.active().and_then(|build| build.version.as_ref()).map(|version| version.packages.clone());
        let build = view.latest().map(VersionEntry::from);
        let project = view.project;
        Self {
            id: project.id.to_string(),
            object: "environment",
            mount: project.slug.mount(),
            slug: project.slug.as_str().to_owned(),
            name: project.name,
            description: project.description,
            entry: project.entry,
            status: status(view.status),
            version: project.active,
            latest_version: (project.latest > 0).then_some(project.latest),
            files: SourceSize { count: project.source.files, bytes: project.source.bytes },
            packages: packages.unwrap_or_default(),
            declared: Declared::default(),
            runtime: Runtime::default(),
            versions: None,
            build,
            created_at: project.created_at.as_millis(),
            updated_at: project.updated_at.as_millis(),
        }
    }
}

fn status(status: ProjectStatus) -> &'static str {
    match status {
        ProjectStatus::Empty => "empty",
        ProjectStatus::Building => "building",
        ProjectStatus::Ready => "ready",
        ProjectStatus::Failed => "failed",
    }
}

fn build_status(state: BuildState) -> &'static str {
    match state {
        BuildState::Waiting | BuildState::Running => "building",
        BuildState::Ready => "ready",
        BuildState::Failed => "failed",
    }
}

fn stage(build: &Build) -> &'static str {
    if build.state.is_ended() { "" } else { build.stage.as_str() }
}

fn failure(build: &Build) -> String {
    build.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default()
}

/// One build in an environment's history: `packages` is a count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VersionEntry {
    version: u32,
    status: &'static str,
    stage: &'static str,
    started_at: i64,
    finished_at: Option<i64>,
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packages: Option<usize>,
}

impl From<&Build> for VersionEntry {
    fn from(build: &Build) -> Self {
        Self {
            version: build.number,
            status: build_status(build.state),
            stage: stage(build),
            started_at: build.started_at.as_seconds(),
            finished_at: build.finished_at.map(Timestamp::as_seconds),
            error: failure(build),
            files: build.version.as_ref().map(|version| version.size.files),
            bytes: build.version.as_ref().map(|version| version.size.bytes),
            packages: build.version.as_ref().map(|version| version.packages.len()),
        }
    }
}

/// The record of a build: `packages` is a list, and the log may come along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BuildRecord {
    id: String,
    object: &'static str,
    version: u32,
    status: &'static str,
    stage: &'static str,
    started_at: i64,
    finished_at: Option<i64>,
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
    packages: Vec<Package>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

impl BuildRecord {
    /// The record, with its log when it was asked for.
    pub fn of(build: Build, log: Option<String>) -> Self {
        let (status, stage, error) = (build_status(build.state), stage(&build), failure(&build));
        let size = build.version.as_ref().map(|version| version.size);
        Self {
            id: build.project_id.to_string(),
            object: "environment.build",
            version: build.number,
            status,
            stage,
            started_at: build.started_at.as_seconds(),
            finished_at: build.finished_at.map(Timestamp::as_seconds),
            error,
            log,
            packages: build.version.map(|version| version.packages).unwrap_or_default(),
            files: size.map(|size| size.files),
            bytes: size.map(|size| size.bytes),
        }
    }
}

/// The answer of `GET /v1/environments`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EnvironmentList {
    /// Oldest first.
    pub environments: Vec<Environment>,
}

/// The answer of `GET …/versions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VersionList {
    id: String,
    active: Option<u32>,
    versions: Vec<VersionEntry>,
}

impl From<ProjectView> for VersionList {
    fn from(view: ProjectView) -> Self {
        Self {
            id: view.project.id.to_string(),
            active: view.project.active,
            versions: view.builds.iter().map(VersionEntry::from).collect(),
        }
    }
}

/// The answer of `GET …/harnesses`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EnvironmentHarnesses {
    /// The environment.
    pub id: String,
    /// Those that name it.
    pub harnesses: Vec<HarnessName>,
}

/// One entry of a source tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileEntry {
    path: String,
    dir: bool,
    bytes: u64,
    mtime: i64,
}

/// The answer of `GET …/files`: every file and every directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileTree {
    entries: Vec<FileEntry>,
    count: u64,
    bytes: u64,
}

impl FileTree {
    /// A tree and its size.
    pub fn of(entries: &[SourceEntry], size: TreeSize) -> Self {
        let entry = |entry: &SourceEntry| FileEntry {
            path: entry.path.to_string(),
            dir: entry.is_directory(),
            bytes: entry.size(),
            mtime: entry.modified_at.as_seconds(),
        };
        Self { entries: entries.iter().map(entry).collect(), count: size.files, bytes: size.bytes }
    }
}

/// The answer of a PUT of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileWritten {
    /// Where.
    pub path: String,
    /// How much.
    pub bytes: u64,
}

/// The answer of a DELETE of a file or a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileDeleted {
    /// What.
    pub path: String,
    /// Always true.
    pub deleted: bool,
}

/// The body of `POST …/directories`.
#[derive(Debug, Clone, Deserialize)]
pub struct DirectoryWrite {
    /// Where.
    pub path: String,
}

/// The answer of `POST …/directories`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DirectoryWritten {
    /// Where.
    pub path: String,
    /// Always true.
    pub dir: bool,
}

/// The body of POST and PUT. Installing packages beside the manifests, and choosing an interpreter, are not served: naming
/// any is refused by name, naming none is what a client that sends back what it read does.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct EnvironmentWrite {
    /// A label for people.
    pub name: Option<String>,
    description: Option<String>,
    entry: Option<String>,
    packages: Option<Value>,
    runtime: Option<RuntimeWrite>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RuntimeWrite {
    python: Option<String>,
}

impl EnvironmentWrite {
    /// Refuses by name what is not served.
    pub fn check(&self) -> Result<()> {
        let refused = |param: &str| {
            let message = format!("`{param}` is not served; declare it in the project's own manifests");
            Err(Error::new(Code::ProjectInvalid, message).at(param))
        };
        match &self.packages {
            None => {}
            Some(Value::Object(managers)) => {
                for (manager, specs) in managers {
                    let empty = specs.is_null() || specs.as_array().is_some_and(Vec::is_empty);
                    if !empty && ["pip", "npm", "apt"].contains(&manager.as_str()) {
                        return refused(&format!("packages.{manager}"));
                    }
                }
            }
            // What an environment is read with under this name is what was installed; sending it back asks for nothing.
            Some(Value::Array(installed)) if installed.iter().all(|package| package.get("manager").is_some()) => {}
            Some(_) => return Err(Error::invalid("packages", "`packages` holds a list per manager")),
        }
        let python = self.runtime.as_ref().and_then(|runtime| runtime.python.as_ref());
        if python.is_some_and(|python| !python.is_empty()) { refused("runtime.python") } else { Ok(()) }
    }

    /// What it says in the domain's words, under this name.
    pub fn into_text(self, name: String) -> ProjectText {
        ProjectText { name, description: self.description, entry: self.entry }
    }
}

/// The JSON form of an import: a git repository.
#[derive(Debug, Clone, Deserialize)]
pub struct ImportWrite {
    git: Option<GitWrite>,
}

#[derive(Debug, Clone, Deserialize)]
struct GitWrite {
    url: Option<String>,
}

impl ImportWrite {
    /// Why it is refused: it names no repository, or one that would have to be fetched.
    pub fn refusal(&self) -> Error {
        match self.git.as_ref().and_then(|git| git.url.as_ref()) {
            Some(_) => Error::new(Code::ProjectInvalid, "import from git is not served yet; send an archive").at("git"),
            None => {
                Error::new(Code::ProjectInvalid, "the import is no archive and names no git repository").at("git.url")
            }
        }
    }
}

/// Skipped members that an answer names.
const NAMED: usize = 200;

/// The answer of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportResult {
    written: u64,
    skipped: u64,
    count: u64,
    bytes: u64,
    /// The first of the skipped, with the reason.
    stead_skipped: Vec<Skipped>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Skipped {
    name: String,
    reason: String,
}

impl From<ImportReport> for ImportResult {
    fn from(report: ImportReport) -> Self {
        Self {
            written: report.written,
            skipped: report.skipped,
            count: report.size.files,
            bytes: report.size.bytes,
            stead_skipped: report
                .skipped_members
                .into_iter()
                .take(NAMED)
                .map(|member| Skipped { name: member.name, reason: member.reason })
                .collect(),
        }
    }
}

/// The answer of `GET …/harnesses` for this environment.
pub fn harnesses_of(id: ProjectId, harnesses: Vec<HarnessName>) -> EnvironmentHarnesses {
    EnvironmentHarnesses { id: id.to_string(), harnesses }
}
