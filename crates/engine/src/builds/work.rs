//! Works on an admitted build: lays the snapshot out, runs the steps that the plan names unless their layers exist, seals the
//! version and makes it active, all in one task that a crash ends as `interrupted` and nothing else.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use stead_domain::build::{Build, BuildEvent, BuildFailure, BuildFailureKind, Package, Stage, Version};
use stead_domain::changes::Changes;
use stead_domain::declared::Declared;
use stead_domain::lease::Lease;
use stead_domain::limit::Limit;
use stead_domain::network::BuildNetworkPolicy;
use stead_domain::project::Project;
use stead_domain::source::{EntryKind, SourceEntry, TreeSize};
use stead_domain::{BlobId, Code, Error, LayerId, ProjectId, Result, WorkspaceId};
use stead_projects::layout::{PreviousVersion, SourceTree, remove_tree};
use stead_projects::plan::{self, BuildSettings, InstallPlan};
use stead_projects::{LayoutError, packages, snapshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::log::BuildLog;
use super::schedule::took;
use crate::collect::layers::HeldLayer;
use crate::commit::{DISK, blobs_failed, store_failed};
use crate::engine::Engine;

/// Why a build's work ended without a version.
pub(super) enum Stopped {
    /// The build's own fault, or its caller's wish.
    Failed(BuildFailure),
    /// The server's fault.
    Broken(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Stopped::Broken(error)
    }
}

impl Stopped {
    pub(super) fn failed(kind: BuildFailureKind, message: impl Into<String>) -> Self {
        Stopped::Failed(BuildFailure::new(kind, message))
    }

    pub(super) fn limit(limit: Limit, message: impl Into<String>) -> Self {
        Stopped::Failed(BuildFailure::limit(limit, message))
    }
}

/// A fault of the disk that versions lie on.
pub(crate) fn layout_failed(error: LayoutError) -> Error {
    Error::new(Code::BackendUnavailable, "the server's project directory does not answer").because(error)
}

/// A fault while a build's files are put in place: the step's own, a full disk, or the server's.
pub(super) fn place_failed(name: &str, error: LayoutError) -> Stopped {
    if error.is_of_the_step() {
        return Stopped::failed(BuildFailureKind::Step, format!("{name} left what cannot be kept: {error}"));
    }
    if error.is_of_an_entry() {
        return Stopped::failed(BuildFailureKind::Internal, format!("{name}: {error}"));
    }
    if error.is_out_of_space() {
        return Stopped::limit(Limit::Disk, format!("{name}: the server's disk is full"));
    }
    Stopped::Broken(layout_failed(error))
}

fn counted(packages: usize) -> String {
    format!("{packages} {}", if packages == 1 { "package" } else { "packages" })
}

/// What every part of one build needs.
pub(super) struct Work {
    pub(super) project: Project,
    pub(super) number: u32,
    pub(super) fresh: bool,
    /// What was declared when the build was admitted.
    pub(super) declared: Declared,
    /// What its steps may reach, as decided then, within what the deployment allows now.
    pub(super) network: BuildNetworkPolicy,
    pub(super) entries: Arc<Vec<SourceEntry>>,
    pub(super) log: BuildLog,
    pub(super) cancel: CancellationToken,
    /// When the build reaches its time limit.
    pub(super) deadline: Instant,
    /// The layers that the version will name; they stay until it does.
    pub(super) held: Mutex<Vec<HeldLayer>>,
}

impl Work {
    pub(super) fn keep_held(&self, layer: HeldLayer) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(layer);
    }
}

impl Engine {
    /// Works on a build in a task of its own, unless one does already.
    pub(crate) fn work_on_build(&self, workspace: WorkspaceId, project: ProjectId, number: u32) {
        let engine = self.clone();
        self.supervisor.spawn("work on a build", async move {
            let Some(place) = engine.builds.begin(project, number) else { return };
            let cancel = place.cancel.clone();
            let _slot = tokio::select! {
                slot = engine.build_queue.slot(workspace) => slot,
                () = cancel.cancelled() => {
                    // One that waits for a slot goes on waiting when the server starts again.
                    if engine.builds.is_closing() {
                        return;
                    }
                    engine.end_build(project, number, BuildEvent::Failed(BuildFailure::cancelled())).await;
                    return;
                }
            };
            if !engine.builds.has_slot(project, number) {
                return;
            }
            let span = tracing::info_span!("build", project.id = %project, build.number = number);
            let working = engine.work(workspace, project, number, cancel).instrument(span);
            let worked = tokio::select! {
                worked = working => worked,
                never = engine.keep_build(project, number) => never,
            };
            if let Err(error) = worked {
                tracing::error!(project.id = %project, build.number = number, error = %error, cause = ?error.cause, "a build broke");
                let message = "the server failed to carry the build out; its log says why".to_owned();
                let failure = BuildFailure::new(BuildFailureKind::Internal, message);
                engine.end_build(project, number, BuildEvent::Failed(failure)).await;
            }
        });
    }

    async fn work(
        &self,
        workspace: WorkspaceId,
        project: ProjectId,
        number: u32,
        cancel: CancellationToken,
    ) -> Result<()> {
        let claim = BuildEvent::Claimed(Lease::taken(self.server, self.now()));
        let Some(build) = self.build_event(project, number, claim).await? else { return Ok(()) };
        self.faults.point("build.claimed");
        let _alone = self.collector.builds.enter(project).await;
        let row = self
            .patiently(|| async { self.store.project_fetch(workspace, project).await.map_err(store_failed) })
            .await?;
        let row = row.ok_or_else(|| Error::new(Code::ProjectNotFound, "the project is gone"))?;
        let (entries, left_out) = self.snapshot_of(workspace, build.snapshot).await?;
        let work = Work {
            project: row,
            number,
            fresh: build.fresh,
            declared: build.declared,
            network: build.network.within(&self.settings.build_network_limit),
            entries: Arc::new(entries),
            log: self.open_build_log(project, number),
            cancel,
            deadline: Instant::now() + self.settings.build_time_limit,
            held: Mutex::default(),
        };
        if left_out > 0 {
            work.log.line(&format!("left out: {left_out} files of .venv, node_modules and the like")).await?;
        }
        let made = match self.make_version(&work).await {
            // Cancelled while its last step was being kept.
            Ok(_) if !self.builds.settle(project, number) => Err(Stopped::Failed(self.builds.cancelled())),
            made => made,
        };
        let event = match made {
            Ok(version) => {
                work.log.line(&format!("version {number} is ready: {}", counted(version.packages.len()))).await?;
                BuildEvent::Succeeded(version)
            }
            Err(Stopped::Failed(failure)) => {
                work.log.line(&format!("failed: {}", failure.message)).await?;
                BuildEvent::Failed(failure)
            }
            Err(Stopped::Broken(error)) => {
                work.log.line(&format!("failed: {}", error.message)).await?;
                self.discard(workspace, project, number, true).await?;
                return Err(error);
            }
        };
        let succeeded = matches!(event, BuildEvent::Succeeded(_));
        work.log.sync().await?;
        self.discard(workspace, project, number, !succeeded).await?;
        self.faults.point("build.worked");
        self.end_build(project, number, event).await;
        self.faults.point("build.ended");
        Ok(())
    }

    /// Removes what the build worked in and, when it failed, what it laid out.
    async fn discard(&self, workspace: WorkspaceId, project: ProjectId, number: u32, version: bool) -> Result<()> {
        let mut places: Vec<PathBuf> = vec![self.layout.build(workspace, project, number)];
        if version {
            places.push(self.layout.version(workspace, project, number));
        }
        self.blocking(move || places.iter().try_for_each(|place| remove_tree(place)).map_err(layout_failed)).await
    }

    async fn snapshot_entries(&self, workspace: WorkspaceId, blob: BlobId) -> Result<Vec<SourceEntry>> {
        Ok(self.snapshot_of(workspace, blob).await?.0)
    }

    /// What a build takes of a snapshot, and how many files it leaves out.
    async fn snapshot_of(&self, workspace: WorkspaceId, blob: BlobId) -> Result<(Vec<SourceEntry>, u64)> {
        let read = || async { self.blobs.read(workspace, blob).await.map_err(blobs_failed) };
        let bytes = self.while_hoping(Instant::now() + DISK, read).await?;
        let entries = snapshot::decode(&bytes).map_err(Error::internal)?;
        let taken = snapshot::for_build(&entries);
        let left_out = TreeSize::of(entries.iter()).files - TreeSize::of(taken.iter()).files;
        Ok((taken, left_out))
    }

    async fn make_version(&self, work: &Work) -> Result<Version, Stopped> {
        let workspace = work.project.workspace_id;
        self.enter(work, Stage::CopyingFiles).await?;
        let source = TreeSize::of(work.entries.iter());
        work.log.line(&format!("copying files: {} files, {} bytes", source.files, source.bytes)).await?;
        work.log.line(&format!("network: {}", work.network)).await?;
        let plan = Arc::new(self.plan(work).await?);
        for line in &plan.log {
            work.log.line(line).await?;
        }
        let began = Instant::now();
        self.lay_out(work, plan.clone()).await?;
        took(Stage::CopyingFiles, began);
        self.faults.point("build.laid_out");
        let layers = self.run_steps(work, &plan).await?;
        self.enter(work, Stage::Finishing).await?;
        let ids: Vec<LayerId> = layers.iter().map(|layer| layer.id).collect();
        let packages: Vec<Package> = packages::combine(layers.iter().map(|layer| layer.packages.as_slice()));
        let mut size = source;
        for layer in &layers {
            size.files += layer.size.files;
            size.bytes += layer.size.bytes;
        }
        let (base, layers) = (self.tools.toolchain().await?.base_for(&work.declared.python), plan.placed(&ids));
        let version = Version { base, layers, packages, source, size, removed_at: None };
        tracing::info!(workspace.id = %workspace, "a version is sealed");
        Ok(version)
    }

    async fn plan(&self, work: &Work) -> Result<InstallPlan, Stopped> {
        let registries = self.tools.registries().await?;
        let settings = BuildSettings {
            python_index: registries.python_index.clone(),
            npm_registry: registries.npm_registry.clone(),
            declared: work.declared.clone(),
            entry: work.project.entry.clone(),
            network: work.network.clone(),
            ..BuildSettings::new(work.project.slug.clone())
        };
        let toolchain = self.tools.toolchain().await?.clone();
        let (entries, blobs) = (work.entries.clone(), self.blobs.clone());
        let workspace = work.project.workspace_id;
        let planned = self
            .blocking(move || {
                let read = |entry: &SourceEntry| {
                    let EntryKind::File { blob, .. } = entry.kind else { return Ok(Vec::new()) };
                    let mut bytes = Vec::new();
                    let mut reader = blobs.open_blocking(workspace, blob)?;
                    std::io::Read::read_to_end(&mut reader, &mut bytes)
                        .map_err(|source| stead_domain::ports::BlobError::Io { action: "read a manifest", source })?;
                    Ok(bytes)
                };
                Ok(plan::plan(&entries, &read, &toolchain, &settings))
            })
            .await?;
        planned.map_err(|error| Stopped::Failed(error.failure()))
    }

    async fn lay_out(&self, work: &Work, plan: Arc<InstallPlan>) -> Result<(), Stopped> {
        let previous = self.previous_version(&work.project).await?;
        let (layout, blobs, entries) = (self.layout.clone(), self.blobs.clone(), work.entries.clone());
        let (workspace, project, number) = (work.project.workspace_id, work.project.id, work.number);
        let laid_out = self
            .blocking(move || {
                let tree = SourceTree { workspace, project, number, entries: &entries, blobs: blobs.as_ref() };
                let previous = previous.as_ref().map(|(number, entries)| PreviousVersion { number: *number, entries });
                Ok(layout.lay_out_version(&tree, &plan, previous).map(|_| ()))
            })
            .await?;
        laid_out.map_err(|error| place_failed("copying files", error))
    }

    /// The newest version on disk, to share unchanged files with.
    async fn previous_version(&self, project: &Project) -> Result<Option<(u32, Vec<SourceEntry>)>> {
        let builds =
            self.patiently(|| async { self.store.builds_list(project.id).await.map_err(store_failed) }).await?;
        let newest = builds.into_iter().rev().find(|build| build.standing().is_some() && build.node == self.node);
        let Some(build) = newest else { return Ok(None) };
        Ok(Some((build.number, self.snapshot_entries(project.workspace_id, build.snapshot).await?)))
    }

    pub(super) async fn enter(&self, work: &Work, stage: Stage) -> Result<()> {
        self.build_event(work.project.id, work.number, BuildEvent::Entered(stage)).await.map(|_| ())
    }

    /// Commits an event of a build, as soon as the store takes it; none when the build has ended meanwhile.
    async fn build_event(&self, project: ProjectId, number: u32, event: BuildEvent) -> Result<Option<Build>> {
        let commit = || {
            self.decide(|| async {
                let build = self.store.build_fetch(project, number).await.map_err(store_failed)?;
                let Some(build) = build.filter(|build| !build.state.is_ended()) else {
                    return Ok((Changes::new(), None));
                };
                // Nothing but an attempt of which the store has not said what became of it has claimed it for this process.
                let claimed = build.lease.is_some_and(|lease| lease.holder == self.server);
                if claimed && matches!(event, BuildEvent::Claimed(_)) {
                    return Ok((Changes::new(), Some(build)));
                }
                let build = build.transition(event.clone(), self.now())?;
                Ok((Changes::new().update(build.clone()), Some(build)))
            })
        };
        self.patiently(commit).await
    }

    /// Renews the claim on a build that is worked on, as long as it is polled; it never ends by itself.
    async fn keep_build<T>(&self, project: ProjectId, number: u32) -> T {
        loop {
            tokio::time::sleep(Lease::RENEWAL).await;
            let renewed = BuildEvent::Renewed(Lease::taken(self.server, self.now()));
            // One that waits for its slot has no claim to renew.
            if let Err(error) = self.build_event(project, number, renewed).await {
                tracing::debug!(error = %error, "a build's claim was not renewed");
            }
        }
    }

    /// Ends a build, as soon as the store takes it; a success makes its version active in the same commit, so that whoever reads
    /// `ready` can start a task.
    async fn end_build(&self, project: ProjectId, number: u32, event: BuildEvent) {
        let ending = self.patiently(|| {
            self.decide(|| async {
                let build = self.store.build_fetch(project, number).await.map_err(store_failed)?;
                let Some(build) = build.filter(|build| !build.state.is_ended()) else {
                    return Ok((Changes::new(), ()));
                };
                let at = self.now();
                let build = build.transition(event.clone(), at)?;
                let mut changes = Changes::new();
                if build.version.is_some() {
                    let row = self.store.project_fetch(build.workspace_id, project).await.map_err(store_failed)?;
                    if let Some(row) = row {
                        changes = changes.update(row.activate(&build, at)?);
                    }
                }
                Ok((changes.update(build), ()))
            })
        });
        let ended = match self.builds.cancelled_by(project, number) {
            Some(request) => request.scope(ending).await,
            None => ending.await,
        };
        if let Err(error) = ended {
            tracing::error!(project.id = %project, build.number = number, error = %error, "ending a build failed");
        }
    }
}
