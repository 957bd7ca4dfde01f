//! The project's own script: `setup.sh`, after everything else.

use stead_bundles::manifest::{encoding_problem, normalise_for_bash};
use stead_domain::build::Stage;

use super::step::{Draft, PackageList};
use super::{PlanError, Planner};
use crate::environment::{Installed, SystemPackages, setup_env};
use crate::toolchain::BASH;

const SCRIPT: &str = "setup.sh";

impl Planner<'_> {
    pub(super) fn plan_setup(&mut self) -> Result<(), PlanError> {
        let Some(script) = self.sources.file(SCRIPT) else { return Ok(()) };
        let bytes = self.sources.read(script)?;
        if let Some(problem) = encoding_problem(&bytes) {
            return Err(PlanError::manifest(SCRIPT, problem));
        }
        let normal = normalise_for_bash(&bytes);
        let mut replaced = Vec::new();
        if *normal != *bytes {
            self.log.push(
                "setup.sh: runs without its byte order mark and carriage returns; the source keeps them".to_owned(),
            );
            replaced.push((script.path.clone(), normal.into_owned()));
        }
        // What the packages bring along is known once they are unpacked; what is declared by name is known now.
        let declared = |name: &str| self.settings.declared.apt.iter().any(|spec| spec.name() == name);
        let (graphviz, magick, figlet) = (declared("graphviz"), declared("imagemagick"), declared("figlet"));
        let packages = SystemPackages { graphviz, magick, figlet };
        let apt = self.steps.iter().any(|step| step.stage == Stage::SystemPackages).then_some(packages);
        let env = setup_env(self.settings, Installed { venv: self.has_venv(), apt });
        // A script may make `.venv` and `node_modules` where no manifest does, and take away what one made.
        let packages = vec![PackageList::Pip(self.list_pip()), PackageList::Npm];
        let commands = vec![self.command(&env, [BASH, SCRIPT])];
        self.push(Draft {
            stage: Stage::SetupScript,
            name: SCRIPT.to_owned(),
            installer: "bash".to_owned(),
            files: None,
            replaced,
            keep: "",
            lower: (0..self.steps.len()).collect(),
            commands,
            packages,
            pinned: false,
        });
        Ok(())
    }
}
