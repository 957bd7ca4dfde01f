//! Blobs in a local directory.
//!
//! ```text
//! <root>/incoming/<n>                      being written; emptied at start
//! <root>/<workspace>/packs/<n>.pack        small blobs, see `packs`
//! <root>/<workspace>/<2 hex>/<62 hex>      a large blob, read-only, named by the hash of its bytes
//! ```
//!
//! A put of a large blob writes to `incoming` and gives the file its name only when it is complete, never over a file that
//! is good. Nothing is flushed before [`Blobs::sync`]. One process at a time uses a directory; a workspace is read when it
//! is first used, so a start takes no longer for more of them.

use std::{
    collections::HashMap,
    fs::{self, Permissions},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use stead_domain::{
    BlobId, WorkspaceId,
    ports::{BlobError, BlobFile, BlobUsage, Blobs, Collected, PortFuture, StoredBlob},
};

use crate::{barrier::Barrier, collection, known::Known, packs, tenant::Tenant};

const INCOMING: &str = "incoming";

/// The local implementation of [`Blobs`]. Clones share everything.
#[derive(Debug, Clone)]
pub struct LocalBlobs {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    root: PathBuf,
    pub(crate) incoming: PathBuf,
    pub(crate) next_incoming: AtomicU64,
    pub(crate) known: Known,
    pub(crate) barrier: Arc<Barrier>,
    tenants: Mutex<HashMap<WorkspaceId, Arc<Tenant>>>,
    /// Held while a workspace is read, so that it is read once.
    loading: Mutex<()>,
    full: u64,
    handles: Arc<packs::Handles>,
}

pub(crate) fn failed(action: &'static str) -> impl FnOnce(io::Error) -> BlobError {
    move |source| BlobError::Io { action, source }
}

impl LocalBlobs {
    /// Opens or makes the directory and removes what an earlier process left half written; blocking.
    pub fn open(root: &Path) -> Result<Self, BlobError> {
        Self::open_with(root, packs::FULL)
    }

    /// [`open`](Self::open) with packs that are full from `full` bytes on.
    pub(crate) fn open_with(root: &Path, full: u64) -> Result<Self, BlobError> {
        let incoming = root.join(INCOMING);
        fs::create_dir_all(&incoming).map_err(failed("make the directory"))?;
        fs::set_permissions(root, Permissions::from_mode(0o700)).map_err(failed("protect the directory"))?;
        for entry in fs::read_dir(&incoming).map_err(failed("list unfinished blobs"))? {
            let entry = entry.map_err(failed("list unfinished blobs"))?;
            if let Err(error) = fs::remove_file(entry.path()) {
                tracing::error!(path = %entry.path().display(), error.message = %error, "an unfinished blob stays");
            }
        }
        let barrier = Arc::new(Barrier::new(root).map_err(failed("open the directory"))?);
        let shared = Shared {
            root: root.to_owned(),
            incoming,
            next_incoming: AtomicU64::new(0),
            known: Known::default(),
            barrier,
            tenants: Mutex::default(),
            loading: Mutex::default(),
            full,
            handles: Arc::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    #[cfg(test)]
    pub(crate) fn barrier(&self) -> &Barrier {
        &self.shared.barrier
    }

    /// Runs blocking work on a clone of the store.
    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, BlobError> + Send + 'static,
    ) -> PortFuture<'_, Result<T, BlobError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let joined = tokio::task::spawn_blocking(move || work(&shared)).await;
            joined.map_err(|error| failed("finish its work")(io::Error::other(error)))?
        })
    }
}

impl Blobs for LocalBlobs {
    fn put(&self, workspace: WorkspaceId, bytes: Vec<u8>) -> PortFuture<'_, Result<StoredBlob, BlobError>> {
        self.blocking(move |shared| shared.put_bytes(&*shared.tenant(workspace)?, &bytes))
    }

    fn put_blocking(&self, workspace: WorkspaceId, reader: &mut dyn Read) -> Result<StoredBlob, BlobError> {
        self.shared.put_stream(&*self.shared.tenant(workspace)?, reader)
    }

    fn adopt_blocking(&self, workspace: WorkspaceId, file: PathBuf) -> Result<StoredBlob, BlobError> {
        self.shared.adopt(&*self.shared.tenant(workspace)?, &file)
    }

    fn open_blocking(&self, workspace: WorkspaceId, id: BlobId) -> Result<BlobFile, BlobError> {
        self.shared.open(&*self.shared.tenant(workspace)?, id)
    }

    fn read(&self, workspace: WorkspaceId, id: BlobId) -> PortFuture<'_, Result<Vec<u8>, BlobError>> {
        self.blocking(move |shared| {
            let mut bytes = Vec::new();
            let mut blob = shared.open(&*shared.tenant(workspace)?, id)?;
            blob.read_to_end(&mut bytes).map_err(failed("read"))?;
            // What is in memory was compared a moment ago.
            if blob.in_memory().is_none() && packs::hash(&bytes) != id {
                return Err(BlobError::Damaged(id));
            }
            Ok(bytes)
        })
    }

    fn open(&self, workspace: WorkspaceId, id: BlobId) -> PortFuture<'_, Result<BlobFile, BlobError>> {
        self.blocking(move |shared| shared.open(&*shared.tenant(workspace)?, id))
    }

    fn workspaces_blocking(&self) -> Result<Vec<WorkspaceId>, BlobError> {
        let mut workspaces = Vec::new();
        for entry in fs::read_dir(&self.shared.root).map_err(failed("list workspaces"))? {
            let name = entry.map_err(failed("list workspaces"))?.file_name();
            workspaces.extend(name.to_str().and_then(|name| name.parse::<WorkspaceId>().ok()));
        }
        Ok(workspaces)
    }

    fn usage_blocking(&self, workspace: WorkspaceId) -> Result<BlobUsage, BlobError> {
        self.shared.tenant(workspace)?.usage().map_err(failed("count"))
    }

    fn usage(&self, workspace: WorkspaceId) -> PortFuture<'_, Result<BlobUsage, BlobError>> {
        self.blocking(move |shared| shared.tenant(workspace)?.usage().map_err(failed("count")))
    }

    fn collect_blocking(
        &self,
        workspace: WorkspaceId,
        is_named: &dyn Fn(BlobId) -> bool,
        grace: Duration,
    ) -> Result<Collected, BlobError> {
        let tenant = self.shared.tenant(workspace)?;
        collection::collect(&self.shared.barrier, &tenant, is_named, grace).map_err(failed("collect"))
    }

    fn sync(&self) -> PortFuture<'_, Result<(), BlobError>> {
        Box::pin(async move { self.shared.barrier.wait().await.map_err(failed("make blobs durable")) })
    }
}

impl Shared {
    /// A workspace, which is read if this is the first use.
    fn tenant(&self, id: WorkspaceId) -> Result<Arc<Tenant>, BlobError> {
        // A panic between two operations on the map leaves a map that is merely incomplete.
        let tenants = || self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tenant) = tenants().get(&id) {
            return Ok(Arc::clone(tenant));
        }
        let _alone = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tenant) = tenants().get(&id) {
            return Ok(Arc::clone(tenant));
        }
        let tenant = Arc::new(
            Tenant::load(&self.root, id, self.full, Arc::clone(&self.handles)).map_err(failed("read a workspace"))?,
        );
        tenants().insert(id, Arc::clone(&tenant));
        Ok(tenant)
    }
}
