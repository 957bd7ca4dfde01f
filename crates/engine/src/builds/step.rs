//! One step of a build: its layer is taken where its key exists, else made in a sandbox that holds nothing but the files in the
//! key, and kept.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stead_domain::build::{BuildFailureKind, Layer, Package};
use stead_domain::changes::Changes;
use stead_domain::limit::{Holder, Limit, Reached};
use stead_domain::ports::{
    BuildNetwork, BuildOverlay, BuildSandbox, BuildSandboxSpec, ExecEvent, ExecExit, ExecRequest, ExitReason, Mount,
    MountSource, OutputStream, Program, Runtime, RuntimeError,
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
use crate::limits::Settings;
use crate::operations::provider_failed;

/// The most that a list of packages may say.
const LISTED: usize = 16 << 20;

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
        let key = run.key;
        let layer = self
            .patiently(|| async { self.store.layer_by_key(workspace, &self.node, key).await.map_err(store_failed) })
            .await?;
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
        let ran = self.tell_refused(work, step, sandbox.as_ref(), run, ran).await;
        // Only now can it be told whether a limit ended the step.
        let reached = sandbox.limits_reached().await;
        sandbox.close().await.map_err(provider_failed)?;
        // A place that a session may take.
        self.line.freed();
        let mut listed = settle(step, ran, &reached)?;
        for survived in &reached {
            let line = format!("{}: it {}, and went on", step.name, survived.phrase(Holder::BuildStep));
            run.log.line(&line).await?;
        }
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
        self.faults.point("build.step.kept");
        self.check_quota(work, step, layer.id, layer.size.bytes).await?;
        self.patiently(|| self.commit_layer(&layer)).await?;
        self.faults.point("build.step.committed");
        Ok(layer)
    }

    /// Records a layer, unless an attempt of which the store did not say what became of it has.
    async fn commit_layer(&self, layer: &Layer) -> Result<()> {
        self.decide(|| async {
            let there = self.store.layers_fetch(&[layer.id]).await.map_err(store_failed)?;
            let changes = if there.is_empty() { Changes::new().fact(layer.clone()) } else { Changes::new() };
            Ok((changes, ()))
        })
        .await
    }

    /// Refuses a layer that would pass the workspace's quota, and removes it.
    async fn check_quota(&self, work: &Work, step: &Step, layer: LayerId, bytes: u64) -> Result<(), Stopped> {
        let workspace = work.project.workspace_id;
        let more = bytes + TreeSize::of(work.entries.iter()).bytes;
        match self.patiently(|| self.require_version_room(workspace, more)).await {
            Ok(()) => Ok(()),
            Err(error) if error.code == Code::QuotaExhausted => {
                let place = self.layout.layer(workspace, layer);
                self.blocking(move || remove_tree(&place).map_err(layout_failed)).await?;
                Err(Stopped::limit(Limit::Quota, format!("{}: {}", step.name, error.message)))
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

    async fn open_sandbox(
        &self,
        work: &Work,
        step: &Step,
        place: &StepPlace,
    ) -> Result<Box<dyn BuildSandbox>, Stopped> {
        let overlay = place.overlay.as_ref().map(|overlay| BuildOverlay {
            target: overlay.target.clone(),
            lowers: overlay.lowers.clone(),
            upper: overlay.upper.clone(),
            work: overlay.work.clone(),
        });
        let spec = BuildSandboxSpec {
            workspace_id: work.project.workspace_id,
            project_id: work.project.id,
            build: Some(work.number),
            mounts: place.readable.iter().map(readable).collect(),
            writable: place.writable.clone(),
            overlay,
            network: if step.network { self.reach(&work.network).await? } else { BuildNetwork::Disabled },
            limits: self.settings.build_sandbox,
            time_limit: left(work),
        };
        self.sandboxes.open(spec).await.map_err(|error| match error.is_full() {
            true => Stopped::limit(Limit::Quota, format!("{}: {}", step.name, error.message)),
            false => Stopped::Broken(provider_failed(error)),
        })
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
            judge(step, exit, &self.settings, &run.tail)?;
            end_leftovers(step, runtime.as_ref()).await?;
        }
        let mut listed = Vec::new();
        for list in &step.packages {
            let Some(command) = list.command() else { continue };
            let mut output = Some(Vec::new());
            let exit = self.run_command(work, runtime.as_ref(), command, run, &mut output).await?;
            end_leftovers(step, runtime.as_ref()).await?;
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
            name: None,
            program: Program::Argv(command.argv.clone()),
            env: command.env.clone(),
            directory: command.directory.clone(),
            stdin: false,
            time_limit: Some(left(work)),
            output_limit: Some(self.settings.build_output_bytes),
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

/// Ends what a command left running, so that nothing works on beside the next one: a package's own code may leave a process behind,
/// and what that does to the next command is in no key.
async fn end_leftovers(step: &Step, runtime: &dyn Runtime) -> Result<(), Stopped> {
    runtime.kill_all().await.map_err(|error| {
        Stopped::failed(
            BuildFailureKind::Step,
            format!("{}: what it left running could not be ended: {error}", step.name),
        )
    })
}

/// What is left of the build's time. A command that begins late gets a moment all the same, and is ended as late.
fn left(work: &Work) -> Duration {
    work.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(100))
}

/// A directory of this machine that a step reads.
fn readable((inside, directory): &(String, PathBuf)) -> Mount {
    Mount { target: inside.clone(), source: MountSource::Directory(directory.clone()) }
}

fn limited(step: &Step, reached: &Reached, end: &str) -> Stopped {
    Stopped::limit(reached.limit(), format!("{} {}{end}", step.name, reached.phrase(Holder::BuildStep)))
}

/// What the limits that were reached mean for a step that has ended: one that failed failed for the first of them, and what
/// passes the bound on disk is not kept, however well the step ended.
fn settle(step: &Step, ran: Result<Vec<Package>, Stopped>, reached: &[Reached]) -> Result<Vec<Package>, Stopped> {
    let over = |reached: &&Reached| {
        matches!(
            reached,
            Reached::DiskBytes { .. } | Reached::DiskFiles { .. } | Reached::DiskDepth | Reached::DiskShort { .. }
        )
    };
    match (ran, reached.first()) {
        // A script may go on after a write that failed, or be faster than those who look from time to time.
        (Ok(listed), _) => match reached.iter().find(over) {
            Some(reached) => Err(limited(step, reached, "")),
            None => Ok(listed),
        },
        (Err(Stopped::Failed(failure)), Some(reached)) if failure.kind == BuildFailureKind::Step => {
            Err(limited(step, reached, &format!(" ({})", failure.message)))
        }
        (Err(stopped), _) => Err(stopped),
    }
}

/// What a command's end means for the build. `tail` is the last that it said.
fn judge(step: &Step, exit: ExecExit, settings: &Settings, tail: &[u8]) -> Result<(), Stopped> {
    let name = &step.name;
    let because = || reason(tail).map_or_else(String::new, |reason| format!(": {reason}"));
    match (exit.reason, exit.code, exit.signal) {
        (ExitReason::Exited, Some(0), None) => Ok(()),
        (ExitReason::TimeLimit, ..) => {
            let reached = Reached::Time { limit: settings.build_time_limit, named: false };
            let late = reached.phrase(Holder::BuildStep);
            Err(Stopped::limit(Limit::Time, format!("the build {late}; {name} was at work")))
        }
        (ExitReason::OutputLimit, ..) => {
            Err(limited(step, &Reached::Output { bytes: settings.build_output_bytes, option: "builds.output" }, ""))
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
