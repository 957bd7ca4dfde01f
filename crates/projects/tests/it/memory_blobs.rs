//! A blob store in memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use stead_domain::ports::{BlobError, BlobFile, BlobUsage, Blobs, Collected, PortFuture, StoredBlob};
use stead_domain::{BlobId, WorkspaceId};

#[derive(Default)]
pub(crate) struct MemoryBlobs {
    kept: Mutex<HashMap<BlobId, Vec<u8>>>,
    opened: Mutex<usize>,
}

impl MemoryBlobs {
    pub(crate) fn store(&self, bytes: Vec<u8>) -> BlobId {
        let id = BlobId::from_bytes(*blake3::hash(&bytes).as_bytes());
        self.kept.lock().unwrap().insert(id, bytes);
        id
    }

    pub(crate) fn get(&self, id: BlobId) -> Result<Vec<u8>, BlobError> {
        self.kept.lock().unwrap().get(&id).cloned().ok_or(BlobError::Missing(id))
    }

    /// How many blobs were opened since the last call.
    pub(crate) fn opened(&self) -> usize {
        std::mem::take(&mut *self.opened.lock().unwrap())
    }
}

impl Blobs for MemoryBlobs {
    fn put(&self, _: WorkspaceId, bytes: Vec<u8>) -> PortFuture<'_, Result<StoredBlob, BlobError>> {
        let stored = StoredBlob { bytes: bytes.len() as u64, id: self.store(bytes) };
        Box::pin(std::future::ready(Ok(stored)))
    }

    fn put_blocking(&self, _: WorkspaceId, reader: &mut dyn Read) -> Result<StoredBlob, BlobError> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(|source| BlobError::Io { action: "read", source })?;
        Ok(StoredBlob { bytes: bytes.len() as u64, id: self.store(bytes) })
    }

    fn adopt_blocking(&self, workspace: WorkspaceId, file: PathBuf) -> Result<StoredBlob, BlobError> {
        let mut file = File::open(file).map_err(|source| BlobError::Io { action: "open", source })?;
        self.put_blocking(workspace, &mut file)
    }

    fn open_blocking(&self, _: WorkspaceId, id: BlobId) -> Result<BlobFile, BlobError> {
        *self.opened.lock().unwrap() += 1;
        Ok(BlobFile::from_bytes(self.get(id)?))
    }

    fn read(&self, _: WorkspaceId, id: BlobId) -> PortFuture<'_, Result<Vec<u8>, BlobError>> {
        Box::pin(std::future::ready(self.get(id)))
    }

    fn open(&self, _: WorkspaceId, id: BlobId) -> PortFuture<'_, Result<BlobFile, BlobError>> {
        Box::pin(std::future::ready(self.get(id).map(BlobFile::from_bytes)))
    }

    fn workspaces_blocking(&self) -> Result<Vec<WorkspaceId>, BlobError> {
        Ok(Vec::new())
    }

    fn usage_blocking(&self, _: WorkspaceId) -> Result<BlobUsage, BlobError> {
        let kept = self.kept.lock().unwrap();
        Ok(BlobUsage { blobs: kept.len() as u64, bytes: kept.values().map(|bytes| bytes.len() as u64).sum() })
    }

    fn usage(&self, workspace: WorkspaceId) -> PortFuture<'_, Result<BlobUsage, BlobError>> {
        Box::pin(std::future::ready(self.usage_blocking(workspace)))
    }

    /// Nothing is ever removed here; no test of this crate collects.
    fn collect_blocking(
        &self,
        _: WorkspaceId,
        _: &dyn Fn(BlobId) -> bool,
        _: Duration,
    ) -> Result<Collected, BlobError> {
        Ok(Collected::default())
    }

    fn sync(&self) -> PortFuture<'_, Result<(), BlobError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
