//! Reading a zip or a tar that somebody uploaded (UHP Environments §3.1).
//!
//! An archive is read twice. The first pass lists its members and decides, with the whole list in view, where each
//! of them lands: a lone wrapping directory is stripped, the last of several members of one name wins, what must not
//! land is skipped with its reason. The second pass streams the bytes of the members that are kept.
//!
//! ```text
//! input ──▶ Format::detect ──▶ pass 1: members ──▶ ArchivePlan ──▶ pass 2: bytes ──▶ Sink
//! ```
//!
//! What a header claims is never trusted: limits count the bytes that really come out of a decoder, and memory holds
//! the plan and one buffer. A failure in the second pass leaves the sink half fed, so a sink must keep nothing before
//! [`read_archive`] has returned.

mod decompress;
mod error;
mod format;
mod limits;
mod plan;
mod sink;
mod tar;
pub(crate) mod tar_header;
mod xz;
mod zip;

use std::io::{BufReader, Read, Seek, SeekFrom};

pub use error::ArchiveError;
pub(crate) use error::shown;
pub use format::Format;
pub use limits::{Limit, Limits};
pub use plan::{ArchivePlan, PlannedKind, PlannedMember, SkipReason, Skipped, SkippedMember};
pub use sink::{Report, Sink};

/// How many bytes a body chunk given to a [`Sink`] has at most.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// Reads the whole archive from the start of `input` into `sink`.
pub fn read_archive<R: Read + Seek>(
    input: &mut R,
    limits: &Limits,
    sink: &mut dyn Sink,
) -> Result<Report, ArchiveError> {
    let (format, plan, entries) = open(input, limits)?;
    for skipped in &plan.skipped.members {
        sink.skipped(&skipped.name, skipped.reason).map_err(ArchiveError::Sink)?;
    }
    for member in &plan.members {
        if member.kind == PlannedKind::Directory {
            sink.directory(&member.path).map_err(ArchiveError::Sink)?;
        }
    }
    if let Some(entries) = entries {
        zip::stream(input, &entries, &plan, sink)?;
    } else {
        rewind(input)?;
        let stream = decompress::Stream::new(format, BufReader::with_capacity(CHUNK_BYTES, input))?;
        tar::stream(stream, limits, &plan, sink)?;
    }
    Ok(Report::new(format, plan))
}

/// Pass 1. The entries are there for a zip only, whose second pass goes by offset.
fn open<R: Read + Seek>(
    input: &mut R,
    limits: &Limits,
) -> Result<(Format, ArchivePlan, Option<Vec<zip::Entry>>), ArchiveError> {
    let length = input.seek(SeekFrom::End(0)).map_err(ArchiveError::Read)?;
    if length > limits.archive_bytes {
        return Err(ArchiveError::TooLarge { limit: Limit::ArchiveBytes, max: limits.archive_bytes });
    }
    rewind(input)?;
    let mut head = Vec::with_capacity(format::HEAD_BYTES);
    input.by_ref().take(format::HEAD_BYTES as u64).read_to_end(&mut head).map_err(ArchiveError::Read)?;
    let format = match Format::detect(&head) {
        Some(format) => format,
        // A zip is found from its end, so one behind a program that unpacks it starts with anything at all.
        None if zip::has_end_record(input, length)? => Format::Zip,
        None => return Err(format::refuse(&head)),
    };
    if format == Format::Zip {
        let (entries, plan) = zip::list(input, length, limits)?;
        return Ok((format, plan, Some(entries)));
    }
    rewind(input)?;
    let stream = decompress::Stream::new(format, BufReader::with_capacity(CHUNK_BYTES, input))?;
    Ok((format, tar::list(stream, limits)?, None))
}

fn rewind<R: Seek>(input: &mut R) -> Result<(), ArchiveError> {
    input.rewind().map_err(ArchiveError::Read)
}
