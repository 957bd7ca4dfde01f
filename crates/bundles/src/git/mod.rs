//! A git repository that a project is imported from: what a caller may name, and what git says about it. Pure.
//!
//! Everything a caller wrote is judged here before any process starts: [`GitUrl`] and [`GitRef`] hold nothing that git, ssh or
//! a shell could take for an option, another transport or another line. What git prints is the answer of a stranger's server,
//! so [`GitTree`] and [`BlobReader`] trust it no more than an archive.

mod advertised;
mod base64;
mod blobs;
mod failure;
mod lfs;
mod modules;
mod percent;
mod reference;
mod secret;
mod tree;
mod url;

pub use advertised::{Advertised, AdvertisedError};
pub use blobs::{BlobReadError, BlobReader};
pub use failure::GitFailure;
pub use lfs::{POINTER_MAX_BYTES, is_lfs_pointer};
pub use modules::submodule_urls;
pub use reference::{GitRef, RefRefusal};
pub use secret::Secret;
pub use tree::{GitFile, GitSkipReason, GitSkipped, GitTree, GitTreeError};
pub use url::{Credentials, GitUrl, Transport, UrlRefusal};
