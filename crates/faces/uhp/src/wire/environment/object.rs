//! The environment object and its lists (UHP Environments §2 and §5).

use schemars::JsonSchema;
use serde::Serialize;
use stead_domain::ProjectId;
use stead_domain::build::Package;
use stead_domain::declared::{self, PackageSpec};
use stead_domain::project::ProjectStatus;
use stead_engine::ProjectView;

use super::VersionEntry;
use crate::wire::harness::HarnessName;
use crate::wire::network::Network;

/// An environment as clients read it: camelCase, milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
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
    #[schemars(schema_with = "super::build::installed")]
    packages: Vec<Package>,
    declared: Declared,
    runtime: Runtime,
    /// An addition: what builds may reach; the deployment's when there is none.
    #[serde(rename = "stead_build_network")]
    build_network: Option<Network>,
    /// Every build; left out of listings.
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<Vec<VersionEntry>>,
    build: Option<VersionEntry>,
    created_at: i64,
    updated_at: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
struct SourceSize {
    count: u64,
    bytes: u64,
}

/// Packages that the owner asked for beside the manifests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
struct Declared {
    pip: Vec<DeclaredSpec>,
    npm: Vec<DeclaredSpec>,
    apt: Vec<DeclaredSpec>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
struct DeclaredSpec {
    spec: String,
    name: String,
    /// What it asks for; empty for any version.
    version: String,
}

impl From<&PackageSpec> for DeclaredSpec {
    fn from(spec: &PackageSpec) -> Self {
        Self { spec: spec.to_string(), name: spec.name().to_owned(), version: spec.version().to_owned() }
    }
}

impl From<&declared::Declared> for Declared {
    fn from(declared: &declared::Declared) -> Self {
        let specs = |specs: &[PackageSpec]| specs.iter().map(DeclaredSpec::from).collect();
        Self { pip: specs(&declared.pip), npm: specs(&declared.npm), apt: specs(&declared.apt) }
    }
}

/// The interpreter that was asked for; empty for the default one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
struct Runtime {
    python: String,
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
            declared: Declared::from(&project.declared),
            runtime: Runtime { python: project.declared.python },
            build_network: project.build_network.as_ref().map(Network::from),
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

/// The answer of `GET /v1/environments`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EnvironmentList {
    /// Oldest first.
    pub environments: Vec<Environment>,
}

/// The answer of `GET …/harnesses`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EnvironmentHarnesses {
    /// The environment.
    pub id: String,
    /// Those that name it.
    pub harnesses: Vec<HarnessName>,
}

/// The answer of `GET …/harnesses` for this environment.
pub fn harnesses_of(id: ProjectId, harnesses: Vec<HarnessName>) -> EnvironmentHarnesses {
    EnvironmentHarnesses { id: id.to_string(), harnesses }
}
