//! Runs the steps of a plan: each as soon as those it builds upon are done, so that the Python and the Node packages of a
//! project install side by side. The first failure stops the others.

use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use stead_domain::build::{Layer, Stage};
use stead_domain::{BlobId, LayerId, Result};
use stead_projects::plan::{InstallPlan, Step};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::log::StepLog;
use super::reason::TAIL;
use super::work::{Stopped, Work};
use crate::engine::Engine;

/// Where a step's run stands.
#[derive(Debug, Clone, PartialEq)]
enum Progress {
    Waiting,
    Running,
    Done(Layer),
}

/// One step's run.
pub(super) struct StepRun<'a> {
    /// Which step of the plan.
    pub(super) index: usize,
    /// The layers it builds upon.
    pub(super) lowers: Vec<LayerId>,
    /// Its layer's key on top of them.
    pub(super) key: BlobId,
    pub(super) log: StepLog<'a>,
    /// The last that the command at work has said.
    pub(super) tail: Vec<u8>,
    /// Cancelled when it shall end.
    pub(super) stop: CancellationToken,
}

impl StepRun<'_> {
    /// Keeps the end of what is said.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
    }
}

/// The first step that can begin now: what it builds upon is done, and nothing of its stage is at work, since the lines
/// of a stage's steps could not be told apart in the log.
fn ready(steps: &[Step], progress: &[Progress]) -> Option<usize> {
    let is_done = |index: &usize| matches!(progress[*index], Progress::Done(_));
    let stage_is_free = |stage: Stage| {
        (0..steps.len()).all(|index| steps[index].stage != stage || progress[index] != Progress::Running)
    };
    (0..steps.len()).find(|index| {
        let step = &steps[*index];
        progress[*index] == Progress::Waiting && step.lower.iter().all(is_done) && stage_is_free(step.stage)
    })
}

/// The stage that clients see: that of the first step at work.
fn stage(steps: &[Step], progress: &[Progress]) -> Option<Stage> {
    (0..steps.len()).find(|index| progress[*index] == Progress::Running).map(|index| steps[index].stage)
}

impl Engine {
    /// The layers of the plan's steps, in the plan's order.
    pub(super) async fn run_steps(&self, work: &Work, plan: &Arc<InstallPlan>) -> Result<Vec<Layer>, Stopped> {
        let steps = &plan.steps;
        let mut progress = vec![Progress::Waiting; steps.len()];
        // Cancelled with the build, or by the first step that fails.
        let stop = work.cancel.child_token();
        let mut running = FuturesUnordered::new();
        let mut failed: Option<Stopped> = None;
        let mut shown = Stage::CopyingFiles;
        loop {
            while failed.is_none()
                && !stop.is_cancelled()
                && let Some(index) = ready(steps, &progress)
            {
                let lowers = layers_of(&steps[index].lower, &progress);
                progress[index] = Progress::Running;
                // A layer on top of others holds a difference, so it goes with those very layers alone.
                let key = steps[index].layer_key(&lowers);
                let log = StepLog::new(&work.log, tag(plan, &steps[index]));
                running.push(self.one_step(
                    work,
                    plan,
                    StepRun { index, lowers, key, log, tail: Vec::new(), stop: stop.clone() },
                ));
            }
            if let Some(stage) = stage(steps, &progress)
                && stage != shown
            {
                shown = stage;
                self.enter(work, stage).await?;
            }
            let Some((index, outcome)) = running.next().await else { break };
            match outcome {
                Ok(layer) => progress[index] = Progress::Done(layer),
                Err(stopped) => {
                    progress[index] = Progress::Waiting;
                    stop.cancel();
                    // What the others say after this is that they were stopped.
                    failed.get_or_insert(stopped);
                }
            }
        }
        if let Some(stopped) = failed {
            return Err(stopped);
        }
        let done: Vec<Layer> = progress
            .into_iter()
            .filter_map(|progress| match progress {
                Progress::Done(layer) => Some(layer),
                Progress::Waiting | Progress::Running => None,
            })
            .collect();
        if done.len() == steps.len() { Ok(done) } else { Err(Stopped::Failed(self.builds.cancelled())) }
    }

    /// The step's layer: the one of its key, or a new one.
    async fn one_step(
        &self,
        work: &Work,
        plan: &Arc<InstallPlan>,
        mut run: StepRun<'_>,
    ) -> (usize, Result<Layer, Stopped>) {
        let looked_for = |result: &'static str| {
            metrics::counter!("stead_layer_cache_requests_total", "result" => result).increment(1);
        };
        let layer = match self.existing_layer(work, plan, &mut run).await {
            Ok(Some(layer)) => {
                looked_for("hit");
                Ok(layer)
            }
            Ok(None) => {
                looked_for("miss");
                let began = Instant::now();
                let layer = self.run_step(work, plan, &mut run).await;
                took(plan.steps[run.index].stage, began);
                layer
            }
            Err(stopped) => Err(stopped),
        };
        let said = run.log.end().await.map_err(Stopped::Broken);
        (run.index, layer.and_then(|layer| said.map(|()| layer)))
    }
}

/// Measures a stage, or one of the steps that make it.
pub(super) fn took(stage: Stage, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    metrics::histogram!("stead_build_stage_duration_seconds", "stage" => stage.as_str()).record(seconds);
}

fn layers_of(indices: &[usize], progress: &[Progress]) -> Vec<LayerId> {
    let layer = |index: &usize| match &progress[*index] {
        Progress::Done(layer) => Some(layer.id),
        Progress::Waiting | Progress::Running => None,
    };
    indices.iter().filter_map(layer).collect()
}

/// What stands before each line of a step that may run beside others, so that their lines can be told apart.
fn tag(plan: &InstallPlan, step: &Step) -> Option<&'static str> {
    let side_by_side = |other: &Step| {
        other.stage != step.stage && other.stage != Stage::SetupScript && step.stage != Stage::SetupScript
    };
    plan.steps.iter().any(side_by_side).then(|| match step.stage {
        Stage::PythonPackages => "python",
        Stage::NodePackages => "node",
        Stage::SystemPackages => "system",
        stage => stage.as_str(),
    })
}
