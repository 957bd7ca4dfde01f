//! Logs on a disk that may be full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stead_domain::ports::{LogChunk, LogError, LogName, Logs, PortFuture};

/// Logs that take nothing while a test says so.
pub struct FaultyLogs {
    inner: Arc<dyn Logs>,
    full: AtomicBool,
}

impl FaultyLogs {
    /// In front of these; with room at first.
    pub fn new(inner: Arc<dyn Logs>) -> Arc<Self> {
        Arc::new(Self { inner, full: AtomicBool::new(false) })
    }

    /// Whether appends leave the half of what they were given behind and fail.
    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }
}

impl Logs for FaultyLogs {
    fn append(&self, log: LogName, mut bytes: Vec<u8>) -> PortFuture<'_, Result<(), LogError>> {
        if !self.full.load(Ordering::SeqCst) {
            return self.inner.append(log, bytes);
        }
        Box::pin(async move {
            bytes.truncate(bytes.len() / 2);
            self.inner.append(log, bytes).await?;
            Err(LogError { action: "append to", source: std::io::ErrorKind::StorageFull.into() })
        })
    }

    fn read(&self, log: LogName, from: u64, most: usize) -> PortFuture<'_, Result<LogChunk, LogError>> {
        self.inner.read(log, from, most)
    }

    fn read_kept(&self, log: LogName) -> PortFuture<'_, Result<Vec<u8>, LogError>> {
        self.inner.read_kept(log)
    }

    fn cut(&self, log: LogName, length: u64) -> PortFuture<'_, Result<(), LogError>> {
        self.inner.cut(log, length)
    }

    fn sync(&self, log: LogName) -> PortFuture<'_, Result<(), LogError>> {
        self.inner.sync(log)
    }

    fn remove(&self, log: LogName) -> PortFuture<'_, Result<(), LogError>> {
        self.inner.remove(log)
    }
}
