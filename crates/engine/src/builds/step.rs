//! One step of a build: its layer is taken where its key exists, else made in a sandbox that holds nothing but the files in the
//! key, and kept.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stead_domain::build::{BuildFailureKind, BuildLimit, Layer, Package};
use stead_domain::changes::Changes;
use stead_domain::ports::{
    BuildNetwork, BuildOverlay, BuildSandbox, BuildSandboxSpec, ExecEvent, ExecExit, ExecRequest, ExitReason, Mount,
    MountSource, OutputStream, Program, ProviderError, Runtime, RuntimeError,
};
use stead_domain::source::TreeSize;
use stead_domain::{Code, LayerId, Result};
use stead_projects::layout::{Sealed, SourceTree, StepPlace, remove_tree};
use stead_projects::packages;
use stead_projects::plan::{Command, InstallPlan, PackageList, Step};
use tokio::time::Instant;

use super::reason::reason;
use super::schedule::StepRun;
use super::work::{Stopped, Work, layout_failed, place_failed};
use crate::commit::store_failed;
use crate::engine::Engine;
use crate::operations::provider_failed;

/// The most that a list of packages may say.
const LISTED: usize = 16 << 20;
/// The most that a step may say altogether; the log keeps head and tail of it.
const OUTPUT: u64 = 1 << 30;

/// When a layer was made, for people.
fn date(layer: &Layer) -> String {
    jiff::Timestamp::from_microsecond(layer.created_at.as_micros())
        .map_or_else(|_| "an unknown date".to_owned(), |at| format!("{at:.0}"))
}

impl Engine {
    /// The layer of the step's key, unless the build is to be fresh or the layer is too old for what it installed.
    pub(super) async fn existing_layer(
        &self,
        work: &Work,
        plan: &InstallPlan,
        run: &mut StepRun<'_>,
    ) -> Result<Option<Layer>, Stopped> {
        let step = &plan.steps[run.index];
        let workspace = work.project.workspace_id;
        if work.fresh {
            return Ok(None);
        }
        let layer = self.store.layer_by_key(workspace, &self.node, run.key).await.map_err(store_failed)?;
        let Some(layer) = layer else { return Ok(None) };
        // Held before its directory is looked for: what is there then stays.
        let Some(held) = self.collector.layers.hold(layer.id) else { return Ok(None) };
        if !step.pinned && self.now().since(layer.created_at) > self.settings.layer_age {
            run.log
                .line(&format!("{}: the layer of {} is too old for unpinned packages", step.name, date(&layer)))
                .await?;
            return Ok(None);
        }
        let place = self.layout.layer_tree(workspace, layer.id);
        if !tokio::fs::try_exists(&place).await.unwrap_or(false) {
            return Ok(None);
        }
        let line = format!("{}: nothing to install, its inputs are those of the layer of {}", step.name, date(&layer));
        run.log.line(&line).await?;
        work.keep_held(held);
        Ok(Some(layer))
    }

    /// Runs the step and keeps what it wrote.
    pub(super) async fn run_step(
        &self,
        work: &Work,
        plan: &Arc<InstallPlan>,
        run: &mut StepRun<'_>,
    ) -> Result<Layer, Stopped> {
        let index = run.index;
        let step = &plan.steps[index];
        let begun = [format!("{}: installing", step.name)];
        let inputs = step.key_inputs.iter().map(|input| format!("  {input}"));
        run.log.line(&begun.into_iter().chain(inputs).collect::<Vec<_>>().join("\n")).await?;
        let place = self.prepare(work, plan.clone(), index, run.lowers.clone()).await?;
        let sandbox = self.open_sandbox(work, step, &place).await?;
        self.faults.point("build.step.opened");
        let ran = self.run_commands(work, step, sandbox.as_ref(), run).await;
        // Only now can it be told whether a limit ended the step.
        let exceeded = match &ran {
            Err(Stopped::Failed(failure)) if failure.kind == BuildFailureKind::Step => sandbox.exceeded().await,
            // A script may go on after a write that failed, or be faster than those who look from time to time.
            Ok(_) => sandbox.exceeded().await.filter(|limit| limit_of(limit) == BuildLimit::Disk),
            Err(_) => None,
        };
        sandbox.close().await.map_err(provider_failed)?;
        let mut listed = match (ran, exceeded) {
            (Ok(listed), None) => listed,
            (Ok(_), Some(limit)) => {
                return Err(Stopped::limit(limit_of(&limit), format!("{}: {}", step.name, limit.message)));
            }
            (Err(Stopped::Failed(failure)), Some(limit)) => {
                let message = format!("{} ({})", failure.message, limit.message);
                return Err(Stopped::limit(limit_of(&limit), message));
            }
            (Err(stopped), _) => return Err(stopped),
        };
        self.faults.point("build.step.ran");
        let id = LayerId::new(self.ids.as_ref());
        // A new id is nobody's yet, so nobody takes it away.
        self.collector.layers.hold(id).into_iter().for_each(|held| work.keep_held(held));
        let (sealed, npm) = self.keep(work, plan.clone(), index, place, id).await?;
        for name in &sealed.removed {
            run.log
                .line(&format!("{}: `{name}` is neither file, directory nor link and was removed", step.name))
                .await?;
        }
        listed.extend(npm);
        let layer = Layer {
            id,
            workspace_id: work.project.workspace_id,
            project_id: work.project.id,
            key: run.key,
            node: self.node.clone(),
            step: step.name.clone(),
            packages: listed,
            size: sealed.size,
            created_at: self.now(),
        };
        self.check_quota(work, step, layer.id, layer.size.bytes).await?;
        self.decide(|| async { Ok((Changes::new().fact(layer.clone()), ())) }).await?;
        Ok(layer)
    }

    /// Refuses a layer that would pass the workspace's quota, and removes it.
    async fn check_quota(&self, work: &Work, step: &Step, layer: LayerId, bytes: u64) -> Result<(), Stopped> {
        let workspace = work.project.workspace_id;
        let more = bytes + TreeSize::of(work.entries.iter()).bytes;
        match self.require_version_room(workspace, more).await {
            Ok(()) => Ok(()),
            Err(error) if error.code == Code::QuotaExhausted => {
                let place = self.layout.layer(workspace, layer);
                self.blocking(move || remove_tree(&place).map_err(layout_failed)).await?;
                Err(Stopped::limit(BuildLimit::Quota, format!("{}: {}", step.name, error.message)))
            }
            Err(error) => Err(Stopped::Broken(error)),
        }
    }

    async fn prepare(
        &self,
        work: &Work,
        plan: Arc<InstallPlan>,
        index: usize,
        lowers: Vec<LayerId>,
    ) -> Result<StepPlace, Stopped> {
        let (layout, blobs, entries) = (self.layout.clone(), self.blobs.clone(), work.entries.clone());
        let (workspace, project, number) = (work.project.workspace_id, work.project.id, work.number);
        let mount = work.project.slug.mount();
        let name = plan.steps[index].name.clone();
        let place = self
            .blocking(move || {
                let tree = SourceTree { workspace, project, number, entries: &entries, blobs: blobs.as_ref() };
                Ok(layout.prepare_step(&tree, &mount, index, &plan.steps[index], &lowers))
            })
            .await?;
        place.map_err(|error| place_failed(&name, error))
    }

    async fn keep(
        &self,
        work: &Work,
        plan: Arc<InstallPlan>,
        index: usize,
        place: StepPlace,
        id: LayerId,
    ) -> Result<(Sealed, Vec<Package>), Stopped> {
        let (layout, blobs, entries) = (self.layout.clone(), self.blobs.clone(), work.entries.clone());
        let (workspace, project, number) = (work.project.workspace_id, work.project.id, work.number);
        let name = plan.steps[index].name.clone();
        let kept = self
            .blocking(move || {
                let step = &plan.steps[index];
                let tree = SourceTree { workspace, project, number, entries: &entries, blobs: blobs.as_ref() };
                let sealed = layout.keep_layer(&tree, &place, step, id);
                let npm = match step.packages.contains(&PackageList::Npm) {
                    true => packages::read_npm(&layout.layer_tree(workspace, id)),
                    false => Vec::new(),
                };
                Ok(sealed.map(|sealed| (sealed, npm)))
            })
            .await?;
        kept.map_err(|error| place_failed(&name, error))
    }

    async fn open_sandbox(&self, work: &Work, step: &Step, place: &StepPlace) -> Result<Box<dyn BuildSandbox>> {
        let overlay = place.overlay.as_ref().map(|overlay| BuildOverlay {
            target: overlay.target.clone(),
            lowers: overlay.lowers.clone(),
            upper: overlay.upper.clone(),
            work: overlay.work.clone(),
        });
        let spec = BuildSandboxSpec {
            workspace_id: work.project.workspace_id,
            project_id: work.project.id,
            mounts: place.readable.iter().map(readable).collect(),
            writable: place.writable.clone(),
            overlay,
            network: if step.network { self.reach(&work.network) } else { BuildNetwork::Disabled },
            limits: self.settings.build_sandbox,
            time_limit: left(work),
        };
        self.sandboxes.open(spec).await.map_err(provider_failed)
    }

    async fn run_commands(
        &self,
        work: &Work,
        step: &Step,
        sandbox: &dyn BuildSandbox,
        run: &mut StepRun<'_>,
    ) -> Result<Vec<Package>, Stopped> {
        let runtime = sandbox.runtime();
        for command in &step.commands {
            run.tail.clear();
            let exit = self.run_command(work, runtime.as_ref(), command, run, &mut None).await?;
            judge(step, exit, self.settings.build_time_limit.as_secs(), &run.tail)?;
        }
        let mut listed = Vec::new();
        for list in &step.packages {
            let Some(command) = list.command() else { continue };
            let mut output = Some(Vec::new());
            let exit = self.run_command(work, runtime.as_ref(), command, run, &mut output).await?;
            if exit.code == Some(0) {
                listed.extend(list.parse(&output.unwrap_or_default()));
            }
        }
        Ok(listed)
    }

    /// Runs one command to its end; with `captured` its standard output goes there instead of into the log.
    async fn run_command(
        &self,
        work: &Work,
        runtime: &dyn Runtime,
        command: &Command,
        run: &mut StepRun<'_>,
        captured: &mut Option<Vec<u8>>,
    ) -> Result<ExecExit, Stopped> {
        let request = ExecRequest {
            program: Program::Argv(command.argv.clone()),
            env: command.env.clone(),
            directory: command.directory.clone(),
            stdin: false,
            time_limit: Some(left(work)),
            output_limit: Some(OUTPUT),
        };
        let lost = |error: RuntimeError| {
            Stopped::failed(BuildFailureKind::Step, format!("the step's sandbox was lost: {error}"))
        };
        let mut exec = runtime.exec(request).await.map_err(lost)?;
        let mut cancelled = false;
        loop {
            tokio::select! {
                event = exec.next() => match event.map_err(lost)? {
                    ExecEvent::Output(OutputStream::Stdout, bytes) if captured.is_some() => {
                        if let Some(captured) = captured {
                            captured.extend(bytes.into_iter().take(LISTED.saturating_sub(captured.len())));
                        }
                    }
                    ExecEvent::Output(_, bytes) => {
                        run.hear(&bytes);
                        run.log.append(bytes).await?;
                    }
                    ExecEvent::Exited(_) if cancelled => return Err(Stopped::Failed(self.builds.cancelled())),
                    ExecEvent::Exited(exit) => return Ok(exit),
                },
                () = run.stop.cancelled(), if !cancelled => {
                    cancelled = true;
                    exec.kill().await.map_err(lost)?;
                }
            }
        }
    }
}

/// What is left of the build's time. A command that begins late gets a moment all the same, and is ended as late.
fn left(work: &Work) -> Duration {
    work.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(100))
}

/// A directory of this machine that a step reads.
fn readable((inside, directory): &(String, PathBuf)) -> Mount {
    Mount { target: inside.clone(), source: MountSource::Directory(directory.clone()) }
}

/// Which limit a provider says was reached.
fn limit_of(error: &ProviderError) -> BuildLimit {
    match error.code.as_str() {
        "limit_memory" => BuildLimit::Memory,
        "limit_processes" => BuildLimit::Processes,
        _ => BuildLimit::Disk,
    }
}

/// The status with which a shell says that a signal ended its command, for the one of a file that grew beyond its bound.
const FILE_TOO_LARGE: i32 = 128 + SIGXFSZ;
const SIGXFSZ: i32 = 25;

/// What a command's end means for the build. `tail` is the last that it said.
fn judge(step: &Step, exit: ExecExit, seconds: u64, tail: &[u8]) -> Result<(), Stopped> {
    let name = &step.name;
    let because = || reason(tail).map_or_else(String::new, |reason| format!(": {reason}"));
    match (exit.reason, exit.code, exit.signal) {
        (ExitReason::Exited, Some(0), None) => Ok(()),
        (ExitReason::TimeLimit, ..) => Err(Stopped::limit(
            BuildLimit::Time,
            format!("{name} was at work when the build reached its time limit of {seconds} seconds"),
        )),
        (ExitReason::OutputLimit, ..) => {
            Err(Stopped::limit(BuildLimit::Output, format!("{name} said more than the output limit")))
        }
        (_, Some(FILE_TOO_LARGE), _) | (_, None, Some(SIGXFSZ)) => {
            Err(Stopped::limit(BuildLimit::Disk, format!("{name} wrote more to disk than the limit allows")))
        }
        (_, Some(code), _) => {
            Err(Stopped::failed(BuildFailureKind::Step, format!("{name} failed with exit status {code}{}", because())))
        }
        (_, None, Some(signal)) => {
            Err(Stopped::failed(BuildFailureKind::Step, format!("{name} was ended by signal {signal}{}", because())))
        }
        (_, None, None) => Err(Stopped::failed(BuildFailureKind::Step, format!("{name} ended without a status"))),
    }
}
