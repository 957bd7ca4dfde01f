//! What may be declared: packages the registries know, and what a build can be made with here.

use stead_domain::declared::{PackageManager, PackageSpec};
use stead_domain::ports::Checked;
use stead_domain::{Code, Error, Result};
use stead_projects::OperatingSystem;

use crate::engine::Engine;

/// A spec, and what its registry said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageCheck {
    /// The spec as it was read.
    pub spec: PackageSpec,
    /// The registry's answer.
    pub checked: Checked,
}

/// What builds are made with on this machine, and nothing that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtimes {
    /// Minors of the Python interpreters, such as `3.12`; the default first.
    pub python: Vec<String>,
    /// Majors of Node.
    pub node: Vec<String>,
    /// What sessions have under `/usr`.
    pub os: OperatingSystem,
    /// Whether system packages can be declared.
    pub apt: bool,
}

impl Engine {
    /// Asks a manager's registry about a spec, before any build. `project_invalid` for another manager than pip, npm and apt,
    /// and for what is no spec.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn package_check(&self, manager: &str, spec: &str) -> Result<PackageCheck> {
        let Some(manager) = PackageManager::parse(manager) else {
            let message = "packages can be checked for the managers pip, npm and apt";
            return Err(Error::new(Code::ProjectInvalid, message).at("manager"));
        };
        let spec = PackageSpec::parse(manager, spec).map_err(|error| error.at("spec"))?;
        let checked = self.registries.check(&spec).await;
        Ok(PackageCheck { spec, checked })
    }

    /// What a build can be made with here.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn runtimes(&self) -> Result<Runtimes> {
        let tools = self.tools.toolchain().await?;
        Ok(Runtimes {
            python: tools.python_minors(),
            node: tools.node.iter().filter_map(|node| node.version.split('.').next().map(str::to_owned)).collect(),
            os: self.system.clone(),
            apt: tools.apt.is_some(),
        })
    }
}
