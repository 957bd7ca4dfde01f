//! Hosts that a step asked for and was refused: named in the log, and in the failure when it was the end of the step.

use stead_domain::build::{BuildFailureKind, Package};
use stead_domain::ports::BuildSandbox;
use stead_projects::plan::Step;

use super::schedule::StepRun;
use super::work::{Stopped, Work};
use crate::engine::Engine;

impl Engine {
    /// Looks at what the step was refused. Installers say of a refused host what they say of any fault of a network, so that their words
    /// alone would send a reader looking elsewhere.
    pub(super) async fn tell_refused(
        &self,
        work: &Work,
        step: &Step,
        sandbox: &dyn BuildSandbox,
        run: &mut StepRun<'_>,
        ran: Result<Vec<Package>, Stopped>,
    ) -> Result<Vec<Package>, Stopped> {
        if !step.network {
            return ran;
        }
        let Some(refused) = self.refused_hosts(&work.network, &sandbox.refused_hosts().await) else { return ran };
        run.log.line(&format!("{}: {refused}", step.name)).await?;
        ran.map_err(|stopped| match stopped {
            Stopped::Failed(mut failure) if failure.kind == BuildFailureKind::Step => {
                failure.message = format!("{} ({refused})", failure.message);
                Stopped::Failed(failure)
            }
            stopped => stopped,
        })
    }
}
