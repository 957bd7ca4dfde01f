//! What commands and builds say: append-only, read while it grows.

use super::PortFuture;
use crate::ids::{ProjectId, TurnId};

/// A fault of the log store.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action} a log")]
pub struct LogError {
    /// What was being done.
    pub action: &'static str,
    /// Why it failed.
    #[source]
    pub source: std::io::Error,
}

/// Which log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogName {
    /// The raw output of a turn, kept whole.
    Turn(TurnId),
    /// What the installers of a build said: of very long output the first 256 KiB and the last 768 KiB are kept.
    Build(ProjectId, u32),
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    /// The offset of the first byte. An offset names the same byte for ever.
    pub offset: u64,
    /// The bytes; empty at the end of what there is.
    pub bytes: Vec<u8>,
    /// How many bytes between the offset that was asked for and `offset` are left out.
    pub omitted: u64,
}

/// Append-only logs. A log that was never written is empty.
pub trait Logs: Send + Sync {
    /// Appends; readers see it when this returns. One writer at a time per log.
    fn append(&self, log: LogName, bytes: Vec<u8>) -> PortFuture<'_, Result<(), LogError>>;

    /// Reads at most `most` bytes from an offset on. A chunk never spans what is left out.
    fn read(&self, log: LogName, from: u64, most: usize) -> PortFuture<'_, Result<LogChunk, LogError>>;

    /// The whole log as it is kept, with a line that states what is left out.
    fn read_kept(&self, log: LogName) -> PortFuture<'_, Result<Vec<u8>, LogError>>;

    /// Cuts what lies behind the first `length` bytes of a turn's log off: a record that its writer did not live to finish. A build's log
    /// is left as it is. Cutting a shorter or missing log does nothing.
    fn cut(&self, log: LogName, length: u64) -> PortFuture<'_, Result<(), LogError>>;

    /// Makes everything appended so far durable.
    fn sync(&self, log: LogName) -> PortFuture<'_, Result<(), LogError>>;

    /// Removes a log; one that is not there is removed already.
    fn remove(&self, log: LogName) -> PortFuture<'_, Result<(), LogError>>;
}
