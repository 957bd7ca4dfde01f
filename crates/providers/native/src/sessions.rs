//! Environments of sessions: made, run, stopped, deleted.
//!
//! One operation at a time per environment. Create, in order: slot, directories, record, sandbox (and meanwhile the disk). Delete, in
//! order: processes, files, record, slot. A process that dies in between leaves a state from which the same call goes on.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use stead_domain::environment::{HOME, WORKSPACE};
use stead_domain::ports::{Observed, ProviderError, SandboxLimits, StartSpec};
use stead_domain::{EnvironmentId, OperationId, WorkspaceId};
use stead_sandbox::plan::Mount;
use tokio::sync::OwnedMutexGuard;

use crate::accounting::{self, Quota};
use crate::fault::failed;
use crate::host::{Host, blocking};
use crate::plan::{Shape, version_mounts};
use crate::record::{Files, LaunchRecord, Record, read_json};
use crate::removal;
use crate::sandbox::Sandbox;
use crate::slots::{Holder, Lease};
use crate::sweep::end_leftover;

/// The environments of one provider.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) host: Arc<Host>,
    pub(crate) files: Files,
    entries: Mutex<HashMap<EnvironmentId, Arc<Entry>>>,
}

/// What this process knows of one environment.
#[derive(Debug, Default)]
struct Entry {
    /// Held by the operation under way.
    operations: Arc<tokio::sync::Mutex<()>>,
    live: Mutex<Option<Arc<Sandbox>>>,
}

/// The right to operate on one environment.
pub(crate) struct Held {
    entry: Arc<Entry>,
    _turn: OwnedMutexGuard<()>,
}

impl Held {
    fn live(&self) -> Option<Arc<Sandbox>> {
        self.entry.live()
    }

    pub(crate) fn set(&self, sandbox: Option<Arc<Sandbox>>) {
        *self.entry.live.lock().unwrap_or_else(PoisonError::into_inner) = sandbox;
    }
}

impl Entry {
    fn live(&self) -> Option<Arc<Sandbox>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The name of a session's control group and run directory.
pub(crate) fn name_of(slot: u32) -> String {
    format!("e{slot}")
}

impl Sessions {
    /// Opens the directory of environments and makes sure that every record has its lease. Blocking.
    pub(crate) fn open(host: Arc<Host>) -> Result<Self, ProviderError> {
        let directory = host.config.data.join("environments");
        let files = Files::open(directory.clone()).map_err(failed("open the environments", &directory))?;
        let sessions = Self { host, files, entries: Mutex::default() };
        for environment in sessions.files.list().map_err(failed("list the environments", &directory))? {
            if let Some(record) = sessions.record(environment)? {
                // A conflict is logged, and keeps this environment from being started.
                let _ = sessions.ensure_lease(&record);
            }
        }
        Ok(sessions)
    }

    pub(crate) async fn create(
        self: Arc<Self>,
        operation: OperationId,
        environment: EnvironmentId,
        workspace: WorkspaceId,
        spec: StartSpec,
    ) -> Result<String, ProviderError> {
        let held = self.hold(environment).await;
        let this = Arc::clone(&self);
        if let Some(record) = blocking(move || this.record(environment)).await? {
            return self.run(&held, operation, workspace, record, spec).await;
        }
        let this = Arc::clone(&self);
        let record = blocking(move || this.make(operation, environment, workspace)).await?;
        // Side by side: a machine that loses power has nothing running, so only the caller needs to wait for the disk.
        let this = Arc::clone(&self);
        let path = self.files.of(environment);
        let sync = move || this.files.sync(environment).map_err(failed("make an environment durable", &path));
        let (outcome, synced) =
            tokio::join!(self.run(&held, operation, workspace, record.clone(), spec), blocking(sync));
        let outcome = synced.and(outcome);
        if outcome.is_err()
            && let Err(error) = self.undo(&held, record).await
        {
            tracing::error!(%environment, %error, "an environment that could not be made is still there");
        }
        outcome
    }

    /// Leaves nothing of an environment that could not be made.
    async fn undo(self: &Arc<Self>, held: &Held, record: Record) -> Result<(), ProviderError> {
        self.end(held, Some(&record)).await?;
        let this = Arc::clone(self);
        blocking(move || this.remove(record.environment)).await
    }

    pub(crate) async fn start(
        self: Arc<Self>,
        operation: OperationId,
        environment: EnvironmentId,
        workspace: WorkspaceId,
        spec: StartSpec,
    ) -> Result<String, ProviderError> {
        let held = self.hold(environment).await;
        let this = Arc::clone(&self);
        let Some(record) = blocking(move || this.record(environment)).await? else {
            return Err(ProviderError::permanent("environment_lost", "the environment's files do not exist any more"));
        };
        self.run(&held, operation, workspace, record, spec).await
    }

    pub(crate) async fn stop(self: Arc<Self>, environment: EnvironmentId) -> Result<(), ProviderError> {
        let held = self.hold(environment).await;
        let this = Arc::clone(&self);
        let record = blocking(move || this.record(environment)).await?;
        self.end(&held, record.as_ref()).await
    }

    pub(crate) async fn delete(self: Arc<Self>, environment: EnvironmentId) -> Result<(), ProviderError> {
        let held = self.hold(environment).await;
        let this = Arc::clone(&self);
        let record = blocking(move || this.record(environment)).await?;
        self.end(&held, record.as_ref()).await?;
        let this = Arc::clone(&self);
        blocking(move || this.remove(environment)).await?;
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).remove(&environment);
        Ok(())
    }

    pub(crate) async fn inspect(self: Arc<Self>, environment: EnvironmentId) -> Result<Observed, ProviderError> {
        let live = self.live(environment).map(|sandbox| sandbox.record());
        blocking(move || {
            let Some(record) = self.record(environment)? else {
                return Ok(Observed { exists: false, running: false, last_operation: None, handle: None });
            };
            let launch = match live {
                Some(launch) => Some(launch),
                None => self.launch_record(&name_of(record.slot))?.filter(LaunchRecord::is_alive),
            };
            let last_operation = launch.as_ref().and_then(|launch| launch.operation).or(Some(record.created_by));
            let handle = launch.as_ref().map(LaunchRecord::handle);
            Ok(Observed { exists: true, running: launch.is_some(), last_operation, handle })
        })
        .await
    }

    /// The running sandbox of an environment.
    pub(crate) fn live(&self, environment: EnvironmentId) -> Option<Arc<Sandbox>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(&environment)?.live().filter(|sandbox| !sandbox.has_ended())
    }

    /// Every sandbox of this process that runs.
    pub(crate) fn all_live(&self) -> Vec<Arc<Sandbox>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.values().filter_map(|entry| entry.live()).filter(|sandbox| !sandbox.has_ended()).collect()
    }

    /// Waits for the environment's turn. A deleted environment's entry is nobody's any more, so it is looked up again.
    pub(crate) async fn hold(&self, environment: EnvironmentId) -> Held {
        loop {
            let find = || {
                let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
                Arc::clone(entries.entry(environment).or_default())
            };
            let entry = find();
            let turn = Arc::clone(&entry.operations).lock_owned().await;
            if Arc::ptr_eq(&entry, &find()) {
                return Held { entry, _turn: turn };
            }
        }
    }

    /// Sees to it that the environment runs with `spec`.
    async fn run(
        self: &Arc<Self>,
        held: &Held,
        operation: OperationId,
        workspace: WorkspaceId,
        record: Record,
        spec: StartSpec,
    ) -> Result<String, ProviderError> {
        if record.workspace != workspace {
            return Err(ProviderError::permanent(
                "environment_foreign",
                "the environment belongs to another workspace",
            ));
        }
        self.ensure_lease(&record)?;
        let fingerprint = serde_json::to_string(&spec).map_err(|error| {
            ProviderError::permanent("sandbox_plan", format!("the description cannot be written down: {error}"))
        })?;
        if let Some(sandbox) = held.live() {
            let launch = sandbox.record();
            if !sandbox.has_ended() && launch.fingerprint == fingerprint {
                if launch.operation == Some(operation) {
                    return Ok(launch.handle());
                }
                return Ok(blocking(move || sandbox.confirm(operation)).await?.handle());
            }
        }
        self.end(held, Some(&record)).await?;
        let environment = record.environment;
        let shape = self.shape(&record, &spec);
        let egress = self.host.session_egress(&spec.network, workspace, environment.to_string())?;
        let (this, limits) = (Arc::clone(self), self.host.config.limits);
        let (sandbox, quota) = tokio::join!(
            Sandbox::launch(&self.host, shape, egress, Some(operation), fingerprint),
            blocking(move || Ok(this.quota(environment, &limits))),
        );
        let (sandbox, quota) = (sandbox?, quota?);
        sandbox.ledger.bound_disk(quota.clone());
        tokio::spawn(accounting::watch(Arc::clone(&sandbox), quota));
        held.set(Some(Arc::clone(&sandbox)));
        Ok(sandbox.record().handle())
    }

    /// What an environment may have on disk, with what is there now. Blocking.
    pub(crate) fn quota(&self, environment: EnvironmentId, limits: &SandboxLimits) -> Quota {
        let directories = vec![self.files.work(environment), self.files.home(environment)];
        Quota::total(directories, limits, self.host.measurer())
    }

    fn shape(&self, record: &Record, spec: &StartSpec) -> Shape {
        let writable = |source, target| Mount::BindWritable { source, target: PathBuf::from(target) };
        let mut mounts = vec![
            writable(self.files.work(record.environment), WORKSPACE),
            writable(self.files.home(record.environment), HOME),
        ];
        mounts.extend(version_mounts(&spec.mounts));
        Shape {
            name: name_of(record.slot),
            slot: record.slot,
            environment: Some(record.environment),
            mounts,
            limits: self.host.config.limits,
            pseudo_terminals: true,
        }
    }

    /// Ends whatever runs, launched by this process or an earlier one.
    async fn end(&self, held: &Held, record: Option<&Record>) -> Result<(), ProviderError> {
        if let Some(sandbox) = held.live() {
            let ended = sandbox.end().await;
            if ended.is_ok() {
                held.set(None);
                return Ok(());
            }
            // What could not be cleared up then may be cleared up now.
        }
        let Some(record) = record else { return Ok(()) };
        let (host, name) = (Arc::clone(&self.host), name_of(record.slot));
        blocking(move || end_leftover(&host, &name)).await?;
        held.set(None);
        Ok(())
    }

    /// Leases a slot and makes the files; leaves nothing when it fails. Blocking.
    fn make(
        &self,
        operation: OperationId,
        environment: EnvironmentId,
        workspace: WorkspaceId,
    ) -> Result<Record, ProviderError> {
        let path = self.files.of(environment);
        let lease = Lease { workspace: Some(workspace), holder: Holder::Environment { environment } };
        let slot = self.host.slots.lease(&lease).map_err(failed("lease a slot", &path))?.slot()?;
        let record = Record { environment, workspace, slot, created_by: operation };
        match self.files.make(&record, self.host.users.owner(slot)) {
            Ok(()) => Ok(record),
            Err(error) => {
                let error = failed("make an environment's files", &path)(error);
                self.remove(environment)?;
                Err(error)
            }
        }
    }

    /// Removes the files, then the record, then the lease. Blocking; nothing may run.
    pub(crate) fn remove(&self, environment: EnvironmentId) -> Result<(), ProviderError> {
        let path = self.files.of(environment);
        for files in [self.files.work(environment), self.files.home(environment)] {
            removal::remove(&files).map_err(failed("remove an environment's files", &files))?;
        }
        self.files.forget(environment).map_err(failed("remove an environment's record", &path))?;
        removal::remove(&path).map_err(failed("remove an environment's directory", &path))?;
        let holder = Holder::Environment { environment };
        let leases = self.host.slots.list().map_err(failed("list the slots", &path))?;
        let is_its = |found: &Option<Lease>| found.as_ref().is_some_and(|lease| lease.holder == holder);
        for (slot, _) in leases.into_iter().filter(|(_, found)| is_its(found)) {
            self.host.slots.release(slot).map_err(failed("release a slot", &path))?;
        }
        Ok(())
    }

    /// The record of an environment. Blocking.
    pub(crate) fn record(&self, environment: EnvironmentId) -> Result<Option<Record>, ProviderError> {
        self.files.read(environment).map_err(failed("read an environment's record", &self.files.of(environment)))
    }

    /// Leases the slot that a record names, in case the lease did not survive. Blocking.
    pub(crate) fn ensure_lease(&self, record: &Record) -> Result<(), ProviderError> {
        let holder = Holder::Environment { environment: record.environment };
        let lease = Lease { workspace: Some(record.workspace), holder };
        let path = self.files.of(record.environment);
        if self.host.slots.ensure(record.slot, &lease).map_err(failed("lease a slot", &path))? {
            return Ok(());
        }
        tracing::error!(environment = %record.environment, slot = record.slot, "two owners of one slot");
        Err(ProviderError::permanent("slot_conflict", "an environment's user range is leased to something else"))
    }

    fn launch_record(&self, name: &str) -> Result<Option<LaunchRecord>, ProviderError> {
        let path = self.host.run.of(name).join(LaunchRecord::FILE);
        read_json(&path).map_err(failed("read what was launched", &path))
    }
}
