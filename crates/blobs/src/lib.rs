//! Content-addressed bytes in a local directory, and append-only segment files.
//!
//! [`LocalBlobs`] is the [`Blobs`](stead_domain::ports::Blobs) port: identical bytes are stored once per workspace and
//! never shared between workspaces. [`LocalLogs`] is the [`Logs`](stead_domain::ports::Logs) port: what commands and builds
//! print, in files whose offsets never change; of a build's very long output only the beginning and the end stay on disk.
//! [`fuzzing`] is the entry point for a fuzzer.
//!
//! The crate encrypts nothing. What nothing names is for others to say; removing it safely is done here.

mod barrier;
mod collection;
pub mod fuzzing;
mod known;
mod local;
mod logs;
#[cfg(test)]
mod model;
mod packs;
mod segments;
mod singles;
mod store;
mod tenant;
mod trim;

pub use local::LocalBlobs;
pub use logs::LocalLogs;
