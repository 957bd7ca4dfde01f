//! Sandboxes of build steps.
//!
//! In order: slot (with the directories, so that a sweep can take them back), directories handed over, sandbox; at the
//! end: processes, directories taken back, slot. A directory that cannot be taken back keeps its slot leased.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use stead_domain::WorkspaceId;
use stead_domain::environment::HOME;
use stead_domain::limit::Reached;
use stead_domain::ports::{BuildSandbox, BuildSandboxSpec, PortFuture, ProviderError, Runtime};
use stead_sandbox::plan::Mount;
use tokio::runtime::Handle;

use crate::accounting::{self, Quota};
use crate::fault::{failed, lost};
use crate::host::{Host, blocking};
use crate::plan::{Shape, version_mounts};
use crate::runtime::NativeRuntime;
use crate::sandbox::Sandbox;
use crate::slots::{Holder, Lease};
use crate::sweep::end_leftover;
use crate::{ownership, removal};

/// The home directory of a build lies in memory.
const HOME_BYTES: u64 = 64 << 20;
const HOME_INODES: u64 = 20_000;

/// The build sandboxes of one provider.
#[derive(Debug)]
pub(crate) struct Builds {
    pub(crate) host: Arc<Host>,
    /// Names of those that this process has open.
    open: Arc<Mutex<BTreeSet<String>>>,
}

/// The name of a build's control group and run directory.
pub(crate) fn name_of(slot: u32) -> String {
    format!("b{slot}")
}

/// What a build step borrowed.
#[derive(Debug)]
struct Borrowed {
    host: Arc<Host>,
    slot: u32,
    directories: Vec<PathBuf>,
    /// The work directory of the overlay, emptied at the end.
    work: Option<PathBuf>,
    open: Arc<Mutex<BTreeSet<String>>>,
}

impl Builds {
    pub(crate) fn new(host: Arc<Host>) -> Self {
        Self { host, open: Arc::default() }
    }

    /// Whether this process has a sandbox of that name, or a part of one.
    pub(crate) fn is_open(&self, name: &str) -> bool {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    pub(crate) async fn open(self: Arc<Self>, spec: BuildSandboxSpec) -> Result<Box<dyn BuildSandbox>, ProviderError> {
        let (this, directories) = (Arc::clone(&self), directories(&spec));
        let work = spec.overlay.as_ref().map(|overlay| overlay.work.clone());
        let workspace = spec.workspace_id;
        let borrowed = blocking(move || this.borrow(workspace, directories, work)).await?;
        match self.launch(&borrowed, &spec).await {
            Ok((sandbox, quota)) => {
                tokio::spawn(accounting::watch(Arc::clone(&sandbox), quota));
                let runtime = Arc::new(NativeRuntime::new(Arc::clone(&sandbox), Some(spec.time_limit)));
                let inside = Inside { sandbox, borrowed };
                Ok(Box::new(NativeBuild { inside: Some(inside), runtime, handle: Handle::current() }))
            }
            Err(error) => {
                let clear =
                    move || end_leftover(&borrowed.host, &name_of(borrowed.slot)).and_then(|_| borrowed.give_back());
                // The lease stays when this fails, which is logged; the reason why there is no sandbox is worth more.
                let _ = blocking(clear).await;
                Err(error)
            }
        }
    }

    /// Leases a slot and hands the directories over. Blocking.
    fn borrow(
        &self,
        workspace: WorkspaceId,
        directories: Vec<PathBuf>,
        work: Option<PathBuf>,
    ) -> Result<Borrowed, ProviderError> {
        let host = Arc::clone(&self.host);
        let leases = host.config.data.join("environments/slots");
        let holder = Holder::Build { directories: directories.clone() };
        let lease = Lease { workspace: Some(workspace), holder };
        // The name is noted under the same lock, so that a sweep does not take a fresh lease for a leftover.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = host.slots.lease(&lease).map_err(failed("lease a slot", &leases))?.slot()?;
        open.insert(name_of(slot));
        drop(open);
        let owner = host.users.owner(slot);
        let borrowed = Borrowed { host, slot, directories, work, open: Arc::clone(&self.open) };
        for directory in &borrowed.directories {
            if let Err(error) = ownership::hand_over(directory, owner) {
                let error = failed("hand a directory over", directory)(error);
                borrowed.give_back()?;
                return Err(error);
            }
        }
        Ok(borrowed)
    }

    async fn launch(
        &self,
        borrowed: &Borrowed,
        spec: &BuildSandboxSpec,
    ) -> Result<(Arc<Sandbox>, Quota), ProviderError> {
        let (directories, limits) = (borrowed.directories.clone(), spec.limits);
        let measurer = self.host.measurer();
        let quota = blocking(move || Ok(Quota::growth(directories, &limits, measurer))).await?;
        let shape = Shape {
            name: name_of(borrowed.slot),
            slot: borrowed.slot,
            environment: None,
            mounts: mounts(spec),
            limits: spec.limits,
            pseudo_terminals: false,
        };
        let label = match spec.build {
            Some(number) => format!("build of {}/{number}", spec.project_id),
            None => format!("import of {}", spec.project_id),
        };
        let egress = self.host.build_egress(&spec.network, spec.workspace_id, label)?;
        let sandbox = Sandbox::launch(&self.host, shape, egress, None, String::new()).await?;
        sandbox.ledger.bound_disk(quota.clone());
        Ok((sandbox, quota))
    }
}

impl Borrowed {
    /// Takes the directories back and ends the lease. Blocking; nothing may run.
    fn give_back(&self) -> Result<(), ProviderError> {
        for directory in &self.directories {
            ownership::take_back(directory).map_err(failed("take a directory back", directory))?;
        }
        if let Some(work) = &self.work {
            removal::empty_directory(work).map_err(failed("empty a work directory", work))?;
        }
        let leases = self.host.config.data.join("environments/slots");
        self.host.slots.release(self.slot).map_err(failed("release a slot", &leases))?;
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&name_of(self.slot));
        Ok(())
    }
}

/// Directories that the sandbox's user owns for the step.
fn directories(spec: &BuildSandboxSpec) -> Vec<PathBuf> {
    let upper = spec.overlay.iter().map(|overlay| overlay.upper.clone());
    spec.writable.iter().map(|(_, directory)| directory.clone()).chain(upper).collect()
}

/// What is above the overlay's place comes before it, what lies in it after it, and what is written last.
fn mounts(spec: &BuildSandboxSpec) -> Vec<Mount> {
    let home = PathBuf::from(HOME);
    let mut mounts = vec![Mount::Tmpfs { target: home, size_bytes: HOME_BYTES, inodes: HOME_INODES, mode: 0o700 }];
    let above = |mount: &Mount| {
        let overlay = spec.overlay.as_ref();
        overlay.is_some_and(|overlay| Path::new(&overlay.target).starts_with(mount.target()))
    };
    let (before, after): (Vec<Mount>, Vec<Mount>) = version_mounts(&spec.mounts).partition(above);
    mounts.extend(before);
    if let Some(overlay) = &spec.overlay {
        mounts.push(Mount::Overlay {
            lowers: overlay.lowers.clone(),
            upper: overlay.upper.clone(),
            work: overlay.work.clone(),
            target: PathBuf::from(&overlay.target),
            lowers_as_run_user: true,
        });
    }
    mounts.extend(after);
    let writable = spec.writable.iter();
    mounts.extend(
        writable.map(|(target, source)| Mount::BindWritable { source: source.clone(), target: PathBuf::from(target) }),
    );
    mounts
}

/// A running build sandbox. One that is dropped is closed all the same.
struct NativeBuild {
    /// There until it is closed.
    inside: Option<Inside>,
    runtime: Arc<NativeRuntime>,
    handle: Handle,
}

struct Inside {
    sandbox: Arc<Sandbox>,
    borrowed: Borrowed,
}

impl Inside {
    async fn close(self) -> Result<(), ProviderError> {
        self.sandbox.end().await?;
        blocking(move || self.borrowed.give_back()).await
    }
}

impl BuildSandbox for NativeBuild {
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::<NativeRuntime>::clone(&self.runtime)
    }

    fn limits_reached(&self) -> PortFuture<'_, Vec<Reached>> {
        Box::pin(async move {
            let Some(inside) = &self.inside else { return Vec::new() };
            inside.sandbox.limits_told(true).await
        })
    }

    fn refused_hosts(&self) -> PortFuture<'_, BTreeSet<String>> {
        Box::pin(async move {
            let Some(inside) = &self.inside else { return BTreeSet::new() };
            inside.sandbox.refused_hosts().await
        })
    }

    fn close(mut self: Box<Self>) -> PortFuture<'static, Result<(), ProviderError>> {
        let inside = self.inside.take();
        Box::pin(async move {
            let Some(inside) = inside else { return Ok(()) };
            // A task of its own, because half a close must not stay.
            tokio::spawn(inside.close()).await.unwrap_or_else(|error| Err(lost(error)))
        })
    }
}

impl Drop for NativeBuild {
    fn drop(&mut self) {
        if let Some(inside) = self.inside.take() {
            self.handle.spawn(async move {
                if let Err(error) = inside.close().await {
                    tracing::error!(%error, "a build sandbox that was given up could not be closed");
                }
            });
        }
    }
}
