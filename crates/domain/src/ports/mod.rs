//! What the core needs from the outside: the few ports, each implemented by exactly one crate in production.

mod blob_file;
mod blobs;
mod clock;
mod logs;
mod provider;
mod registries;
mod runtime;
mod store;

use std::future::Future;
use std::pin::Pin;

pub use blob_file::BlobFile;
pub use blobs::{BlobError, BlobUsage, Blobs, Collected, StoredBlob};
pub use clock::{Clock, IdSource};
pub use logs::{LogChunk, LogError, LogName, Logs};
pub use provider::{
    BuildNetwork, BuildOverlay, BuildSandbox, BuildSandboxSpec, BuildSandboxes, Endpoint, Mount, MountSource, Observed,
    Outcome, Provider, ProviderCapabilities, ProviderError, SandboxLimits, StartSpec, Swept,
};
pub use registries::{Checked, Registries};
pub use runtime::{
    Adopted, Exec, ExecEvent, ExecExit, ExecRequest, ExitReason, FileEntry, OutputStream, Program, Runtime,
    RuntimeError,
};
pub use store::{CommitError, Committed, Page, SessionFilter, Store, StoreError, Tally};

/// What a port's asynchronous call returns; the domain knows no runtime.
pub type PortFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
