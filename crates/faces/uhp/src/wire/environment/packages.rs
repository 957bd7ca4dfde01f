//! What may be declared (UHP 2026-09-28, `EnvironmentPackageCheck` and `EnvironmentRuntimes`).

use schemars::JsonSchema;
use serde::Serialize;
use stead_engine::PackageCheck;

/// What a manager's registry says of a spec. Texts that do not apply are empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PackageAnswer {
    object: &'static str,
    manager: &'static str,
    name: String,
    spec: String,
    /// Null when the registry could not be asked.
    exists: Option<bool>,
    latest: String,
    /// The exact pin when it is published.
    version: String,
    error: String,
    /// An extension: the version that the spec, whatever its form, would install now.
    stead_fitting: String,
}

impl From<PackageCheck> for PackageAnswer {
    fn from(PackageCheck { spec, checked }: PackageCheck) -> Self {
        Self {
            object: "environment.package",
            manager: spec.manager().as_str(),
            name: spec.name().to_owned(),
            spec: spec.as_str().to_owned(),
            exists: checked.exists,
            latest: checked.latest.unwrap_or_default(),
            version: checked.version.unwrap_or_default(),
            error: checked.error.map(|error| crate::words::sentence(&error)).unwrap_or_default(),
            stead_fitting: checked.fitting.unwrap_or_default(),
        }
    }
}

/// What a build can be made with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Runtimes {
    python: Vec<String>,
    node: Vec<String>,
    os: System,
    apt: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
struct System {
    name: String,
    version: String,
}

impl From<stead_engine::Runtimes> for Runtimes {
    fn from(found: stead_engine::Runtimes) -> Self {
        let stead_engine::Runtimes { python, node, os, apt } = found;
        Self { python, node, os: System { name: os.name, version: os.version }, apt }
    }
}
