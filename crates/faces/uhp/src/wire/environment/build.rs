//! Builds and versions (UHP Environments §4).

use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use stead_domain::Timestamp;
use stead_domain::build::{Build, BuildFailure, BuildState, Package};
use stead_domain::limit::Limit;
use stead_engine::ProjectView;

/// Of a version whose files were removed nothing is known but its record, which a build's own status has no word for.
fn version_status(build: &Build) -> &'static str {
    if build.is_removed() { "unknown" } else { build_status(build.state) }
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

/// When the files of a version were removed, in seconds.
fn removed_at(build: &Build) -> Option<i64> {
    build.version.as_ref().and_then(|version| version.removed_at).map(Timestamp::as_seconds)
}

/// The schema of a list of installed packages.
pub(super) fn installed(_: &mut SchemaGenerator) -> Schema {
    let text = json_schema!({ "type": "string" });
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": { "manager": text, "name": text, "version": text },
            "required": ["manager", "name", "version"],
        },
    })
}

/// One build in an environment's history: `packages` is a count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
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
    /// An addition: there when the files of the version were removed, which is no failure of its build.
    #[serde(skip_serializing_if = "Option::is_none")]
    stead_removed_at: Option<i64>,
}

impl From<&Build> for VersionEntry {
    fn from(build: &Build) -> Self {
        Self {
            version: build.number,
            status: version_status(build),
            stage: stage(build),
            started_at: build.started_at.as_seconds(),
            finished_at: build.finished_at.map(Timestamp::as_seconds),
            error: failure(build),
            files: build.version.as_ref().map(|version| version.size.files),
            bytes: build.version.as_ref().map(|version| version.size.bytes),
            packages: build.version.as_ref().map(|version| version.packages.len()),
            stead_removed_at: removed_at(build),
        }
    }
}

/// An addition of ours: why a build failed, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
struct Failed {
    /// `step`, `manifest`, `limit`, `cancelled`, `interrupted` or `internal`.
    kind: &'static str,
    /// Of the kind `limit`: `time`, `memory`, `disk`, `processes`, `output` or `quota`.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'static str>,
    /// Hosts that the step was refused and that `stead_build_network` could name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    refused_hosts: BTreeSet<String>,
}

impl From<&BuildFailure> for Failed {
    fn from(failure: &BuildFailure) -> Self {
        Self {
            kind: failure.kind.as_str(),
            limit: failure.limit.map(Limit::as_str),
            refused_hosts: failure.refused_hosts.clone(),
        }
    }
}

/// The record of a build: `packages` is a list, and the log may come along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
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
    stead_failure: Option<Failed>,
    /// As in [`VersionEntry`].
    #[serde(skip_serializing_if = "Option::is_none")]
    stead_removed_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
    #[schemars(schema_with = "installed")]
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
            stead_failure: build.failure.as_ref().map(Failed::from),
            stead_removed_at: removed_at(&build),
            log,
            packages: build.version.map(|version| version.packages).unwrap_or_default(),
            files: size.map(|size| size.files),
            bytes: size.map(|size| size.bytes),
        }
    }
}

/// The answer of `GET …/versions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
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
