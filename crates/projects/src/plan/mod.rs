//! Install plans: which steps a project's build has, and the key of each step's layer.
//!
//! ```text
//! packages.apt     ─▶ apt              below the Python and Node packages, which may compile against it
//! packages.pip     ─▶ .venv            below whatever manifests put there
//! requirements.txt ─▶ .venv            alone keyed by the files pip reads
//! pyproject.toml   ─▶ .venv            its dependencies (by a lock where there is one), then itself on top of them
//! package.json     ─▶ node_modules     keyed by manifest, lock and .npmrc
//! packages.npm     ─▶ node_modules     on top of what package.json put there
//! setup.sh         ─▶ anything         keyed by the whole source and every step before it
//! ```
//!
//! A step sees exactly what its key names: that is what makes "same key, no install" true. The rules are in [`step`].

mod apt;
mod declared;
mod error;
mod node;
mod python;
mod python_lock;
mod requirements;
mod settings;
mod setup;
mod sources;
pub mod step;

use stead_domain::LayerId;
use stead_domain::build::{Base, PlacedLayer};
use stead_domain::source::SourceEntry;

pub use error::PlanError;
pub use settings::BuildSettings;
pub use sources::ReadSource;
pub use step::{Command, PackageList, Step, StepFiles};

use crate::toolchain::{Python, Toolchain};
use sources::Sources;

/// Where Python packages are installed, relative to the mount.
pub const VENV: &str = ".venv";
/// Where Node packages are installed.
pub const NODE_MODULES: &str = "node_modules";
/// Where system packages are unpacked.
pub const APT: &str = "apt";

/// The steps of a build, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallPlan {
    /// The steps. None for a project without manifests.
    pub steps: Vec<Step>,
    /// What the build's log should say before the first step: what was found, what is ignored.
    pub log: Vec<String>,
}

impl InstallPlan {
    /// The directories that layers are mounted at; they exist in the version's source before it is sealed.
    pub fn mount_points(&self) -> Vec<String> {
        let mut targets: Vec<String> =
            self.steps.iter().filter(|step| !step.keep.is_empty()).map(|step| step.keep.clone()).collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    /// Where the steps' layers lie in the version; `layers` has one id per step. The result is ordered bottom-up, which
    /// [`Layout::mounts`](crate::Layout::mounts) relies on; within one [`PlacedLayer`] the uppermost layer is first.
    pub fn placed(&self, layers: &[LayerId]) -> Vec<PlacedLayer> {
        let mut placed: Vec<PlacedLayer> = Vec::new();
        for (step, layer) in self.steps.iter().zip(layers) {
            match placed.last_mut() {
                Some(group) if group.target == step.keep => group.layers.insert(0, *layer),
                _ => placed.push(PlacedLayer { target: step.keep.clone(), layers: vec![*layer] }),
            }
        }
        placed
    }
}

/// Plans a build. `entries` is what [`for_build`](crate::snapshot::for_build) left; `read` gives a file's bytes.
pub fn plan(
    entries: &[SourceEntry],
    read: &ReadSource<'_>,
    toolchain: &Toolchain,
    settings: &BuildSettings,
) -> Result<InstallPlan, PlanError> {
    let minor = &settings.declared.python;
    let mut planner = Planner {
        sources: Sources::new(entries, read),
        toolchain,
        settings,
        base: toolchain.base_for(minor),
        python: toolchain.python(minor).or(toolchain.pythons.first()),
        steps: Vec::new(),
        log: Vec::new(),
    };
    planner.log.push(format!("base {}", planner.base.description));
    planner.say_missing_python();
    planner.plan_apt()?;
    planner.plan_declared_pip()?;
    planner.plan_python()?;
    planner.plan_declared_python()?;
    planner.plan_node()?;
    planner.plan_declared_npm()?;
    planner.plan_setup()?;
    let old_style = ["setup.py", "setup.cfg"].into_iter().find(|name| planner.sources.file(name).is_some());
    if let Some(name) = old_style
        && !planner.has_venv()
    {
        let line =
            format!("{name} alone installs nothing; a requirements.txt with the line `.` installs the project with it");
        planner.log.push(line);
    }
    if planner.steps.is_empty() {
        planner.log.push(
            "no requirements.txt, pyproject.toml, package.json or setup.sh, and nothing declared: nothing to install"
                .to_owned(),
        );
    }
    Ok(InstallPlan { steps: planner.steps, log: planner.log })
}

struct Planner<'a> {
    sources: Sources<'a>,
    toolchain: &'a Toolchain,
    settings: &'a BuildSettings,
    /// The base of the version that is made.
    base: Base,
    /// The interpreter that makes `.venv`.
    python: Option<&'a Python>,
    steps: Vec<Step>,
    log: Vec<String>,
}

#[cfg(test)]
mod tests;
