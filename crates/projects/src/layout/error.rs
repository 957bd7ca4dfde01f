//! Faults of laying out and sealing.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use stead_domain::ports::BlobError;

/// Why a tree could not be laid out, sealed or removed.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The file system refused.
    #[error("failed to {action} `{path}`")]
    Io {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A file's bytes are no longer what was uploaded.
    #[error("the contents of `{path}` are damaged or lost on the server; uploading the file again repairs it")]
    Contents {
        /// The file, relative to the source.
        path: String,
        /// What is wrong with them.
        #[source]
        source: BlobError,
    },
    /// A path that no system call takes.
    #[error("the path `{path}` is too long for this server")]
    PathTooLong {
        /// The path, relative to the source.
        path: String,
    },
    /// A file's bytes cannot be had.
    #[error("failed to take `{path}` from the blob store")]
    Blob {
        /// The file, relative to the source.
        path: String,
        /// Why.
        #[source]
        source: BlobError,
    },
    /// A file's bytes are more or fewer than its entry says.
    #[error("`{path}` has {found} bytes where its entry says {expected}")]
    Size {
        /// The file, relative to the source.
        path: String,
        /// What the entry says.
        expected: u64,
        /// What was there.
        found: u64,
    },
    /// A step left directories nested too deeply to be kept.
    #[error("the step left directories more than {limit} levels deep")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// A step left something else where its installation directory was.
    #[error("the step replaced `{path}`, which must be a directory")]
    NotADirectory {
        /// The path relative to the mount.
        path: String,
    },
    /// A layer that the step builds upon was not named.
    #[error("the step builds upon {expected} layers and was given {given}")]
    Layers {
        /// How many it builds upon.
        expected: usize,
        /// How many were named.
        given: usize,
    },
}

impl LayoutError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    /// What befell an entry of a source.
    pub(crate) fn of_entry(action: &'static str, path: &str, error: Errno) -> Self {
        match error {
            Errno::NAMETOOLONG => Self::PathTooLong { path: path.to_owned() },
            error => Self::io(action, Path::new(path), error.into()),
        }
    }

    pub(crate) fn blob(path: &str, source: BlobError) -> Self {
        let path = path.to_owned();
        match source {
            BlobError::Missing(_) | BlobError::Damaged(_) => Self::Contents { path, source },
            BlobError::Io { .. } => Self::Blob { path, source },
        }
    }

    /// Whether the fault lies in one entry of the source, which the message names, and trying again does not help.
    pub fn is_of_an_entry(&self) -> bool {
        matches!(self, Self::Contents { .. } | Self::PathTooLong { .. } | Self::Size { .. })
    }

    /// Whether the disk, a quota or the number of files ran out.
    pub fn is_out_of_space(&self) -> bool {
        let Self::Io { source, .. } = self else { return false };
        matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// Whether the fault lies in what a step of the project did, not in the server.
    pub fn is_of_the_step(&self) -> bool {
        matches!(self, Self::TooDeep { .. } | Self::NotADirectory { .. })
    }
}
