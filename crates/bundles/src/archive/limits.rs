//! How much of an archive is read.

use std::fmt;

/// Bounds on one archive. All of them hold for bytes and members that were really read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The archive itself, as sent, in bytes.
    pub archive_bytes: u64,
    /// All members together, expanded, in bytes.
    pub expanded_bytes: u64,
    /// One member, expanded, in bytes.
    pub file_bytes: u64,
    /// Members of every kind, skipped ones included.
    pub members: u64,
    /// Segments in a path; deeper members are skipped.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            archive_bytes: 512 * MIB,
            expanded_bytes: 2048 * MIB,
            file_bytes: 100 * MIB,
            members: 100_000,
            depth: 128,
        }
    }
}

/// Names one bound of [`Limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// [`Limits::archive_bytes`].
    ArchiveBytes,
    /// [`Limits::expanded_bytes`].
    ExpandedBytes,
    /// [`Limits::file_bytes`].
    FileBytes,
    /// [`Limits::members`].
    Members,
    /// The text of all paths together, in bytes; a constant, so that a plan's memory is bounded.
    PathBytes,
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ArchiveBytes => "bytes of an archive",
            Self::ExpandedBytes => "bytes of all its members",
            Self::FileBytes => "bytes of one file",
            Self::Members => "members",
            Self::PathBytes => "bytes of all its paths",
        })
    }
}
