//! Content-addressed bytes in a local directory, and append-only segment files.
//!
//! [`LocalBlobs`] is the [`Blobs`](stead_domain::ports::Blobs) port: identical bytes are stored once per workspace and
//! never shared between workspaces. [`LocalLogs`] is the [`Logs`](stead_domain::ports::Logs) port: what commands and builds
//! print, in files whose offsets never change; of a build's very long output only the beginning and the end stay on disk.
//!
//! The crate encrypts nothing and deletes no blob: collection is decided elsewhere.

mod barrier;
mod known;
mod local;
mod logs;
mod segments;
mod trim;

pub use local::LocalBlobs;
pub use logs::LocalLogs;
