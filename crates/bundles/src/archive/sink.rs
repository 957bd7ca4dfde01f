//! Where an archive's members go.

use std::io;

use super::{
    format::Format,
    plan::{ArchivePlan, PlannedKind, SkipReason, Skipped},
};
use crate::path::BundlePath;

/// Receives the members of an archive.
///
/// Order: every `skipped`, every `directory`, then for each file `file`, any number of `chunk`, `file_end`. A path
/// comes once. Directories that are only implied by a file's path are not announced.
/// An error ends the reading and comes back as [`super::ArchiveError::Sink`].
pub trait Sink {
    /// A directory that the archive names.
    fn directory(&mut self, path: &BundlePath) -> io::Result<()>;
    /// A file begins. `size` bytes are promised by the archive; fewer or more end in an error, after at most that many
    /// were passed on.
    fn file(&mut self, path: &BundlePath, executable: bool, size: u64) -> io::Result<()>;
    /// The file's next bytes; never empty.
    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// The file is complete and its checksum, if it has one, was right.
    fn file_end(&mut self) -> io::Result<()>;
    /// A member that does not land. Called for the first ones only; [`Report::skipped`] has the count.
    fn skipped(&mut self, name: &str, reason: SkipReason) -> io::Result<()> {
        let _ = (name, reason);
        Ok(())
    }
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The format found.
    pub format: Format,
    /// Files given to the sink.
    pub files: u64,
    /// Directories given to the sink.
    pub directories: u64,
    /// The files' bytes.
    pub bytes: u64,
    /// Members that did not land, with their reasons.
    pub skipped: Skipped,
    /// Litter of desktop systems (`__MACOSX`, `.DS_Store`, `._name`), left out and not counted as skipped.
    pub ignored: u64,
    /// Members that a later one of the same name replaced.
    pub replaced: u64,
    /// The directory that wrapped everything and was stripped.
    pub wrapper: Option<String>,
}

impl Report {
    pub(crate) fn new(format: Format, plan: ArchivePlan) -> Self {
        let directories = plan.members.iter().filter(|member| member.kind == PlannedKind::Directory).count() as u64;
        Self {
            format,
            files: plan.members.len() as u64 - directories,
            directories,
            bytes: plan.expanded_bytes,
            skipped: plan.skipped,
            ignored: plan.ignored,
            replaced: plan.replaced,
            wrapper: plan.wrapper,
        }
    }
}
