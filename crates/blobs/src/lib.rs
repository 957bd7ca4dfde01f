//! Content-addressed bytes in a local directory, and append-only segment files.
//!
//! [`LocalBlobs`] is the [`Blobs`](stead_domain::ports::Blobs) port: identical bytes are stored once per workspace and
//! never shared between workspaces. [`SegmentWriter`] and [`SegmentReader`] keep what commands and builds print: offsets
//! never change, and of very long output only the beginning and the end stay on disk.
//!
//! The crate encrypts nothing and deletes no blob: collection is decided elsewhere.

mod barrier;
mod known;
mod local;
mod segments;
mod trim;

pub use local::LocalBlobs;
pub use segments::{SegmentChunk, SegmentReader, SegmentWriter};
pub use trim::{Kept, Trim};
