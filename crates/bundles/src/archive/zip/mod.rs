//! Members of a zip. The central directory alone decides what is in it; local headers are only walked past.

mod directory;
mod end;
mod name;

use std::io::{BufReader, Read, Seek, SeekFrom};

use flate2::{Crc, read::DeflateDecoder};

pub(super) use directory::Entry;

use super::{
    CHUNK_BYTES, decompress,
    error::ArchiveError,
    format::Format,
    limits::Limits,
    plan::{ArchivePlan, PlannedKind, PlannedMember},
    sink::Sink,
};

const LOCAL_HEADER_BYTES: usize = 30;

/// Whether the input ends like a zip.
pub(super) fn has_end_record<R: Read + Seek>(input: &mut R, length: u64) -> Result<bool, ArchiveError> {
    Ok(end::find(input, length)?.is_some())
}

/// Pass 1. The entries are indexed by the plan's ordinals.
pub(super) fn list<R: Read + Seek>(
    input: &mut R,
    length: u64,
    limits: &Limits,
) -> Result<(Vec<Entry>, ArchivePlan), ArchiveError> {
    let end = end::find(input, length)?
        .ok_or_else(|| ArchiveError::corrupt("the zip has no directory at its end; it may be cut off"))?;
    directory::read(input, &end, limits)
}

/// Pass 2.
pub(super) fn stream<R: Read + Seek>(
    input: &mut R,
    entries: &[Entry],
    plan: &ArchivePlan,
    sink: &mut dyn Sink,
) -> Result<(), ArchiveError> {
    let mut buffer = vec![0; CHUNK_BYTES];
    for member in &plan.members {
        if let PlannedKind::File { executable, size } = member.kind {
            sink.file(&member.path, executable, size).map_err(ArchiveError::Sink)?;
            let entry = usize::try_from(member.ordinal)
                .ok()
                .and_then(|index| entries.get(index))
                .ok_or_else(|| ArchiveError::corrupt("the plan and the zip's directory disagree"))?;
            stream_body(input, entry, member, &mut buffer, sink)?;
            sink.file_end().map_err(ArchiveError::Sink)?;
        }
    }
    Ok(())
}

fn stream_body<R: Read + Seek>(
    input: &mut R,
    entry: &Entry,
    member: &PlannedMember,
    buffer: &mut [u8],
    sink: &mut dyn Sink,
) -> Result<(), ArchiveError> {
    let corrupt = |what: &str| ArchiveError::corrupt(format!("member `{}` {what}", member.path));
    input.seek(SeekFrom::Start(entry.header_offset)).map_err(ArchiveError::Read)?;
    let mut header = [0; LOCAL_HEADER_BYTES];
    input.read_exact(&mut header).map_err(ArchiveError::from_decoder)?;
    if header[..4] != *b"PK\x03\x04" {
        return Err(corrupt("is not where the zip's directory says"));
    }
    let name = u16::from_le_bytes([header[26], header[27]]);
    let extra = u16::from_le_bytes([header[28], header[29]]);
    input.seek(SeekFrom::Current(i64::from(name) + i64::from(extra))).map_err(ArchiveError::Read)?;
    let compressed = BufReader::with_capacity(CHUNK_BYTES, input.take(entry.compressed_size));
    let mut body: Box<dyn Read + '_> = match entry.method {
        0 => Box::new(compressed),
        8 => Box::new(DeflateDecoder::new(compressed)),
        12 => Box::new(decompress::Stream::new(Format::TarBzip2, compressed)?),
        93 => Box::new(decompress::Stream::new(Format::TarZstd, compressed)?),
        95 => Box::new(decompress::Stream::new(Format::TarXz, compressed)?),
        method => {
            return Err(ArchiveError::Unsupported {
                what: format!("zip compression method {method} (member `{}`)", member.path),
            });
        }
    };
    let mut crc = Crc::new();
    let mut left = entry.size;
    loop {
        let count = body.read(buffer).map_err(|error| match ArchiveError::from_decoder(error) {
            ArchiveError::Corrupt { what } => corrupt(&format!("cannot be decompressed ({what})")),
            other => other,
        })?;
        if count == 0 {
            break;
        }
        // The sum of stated sizes was held against the limits, so no member may give more than it states.
        left = left
            .checked_sub(count as u64)
            .ok_or_else(|| corrupt(&format!("gives more than the {} bytes it states", entry.size)))?;
        crc.update(&buffer[..count]);
        sink.chunk(&buffer[..count]).map_err(ArchiveError::Sink)?;
    }
    if left > 0 {
        return Err(corrupt(&format!("gives {left} bytes less than it states")));
    }
    if crc.sum() != entry.crc32 {
        return Err(corrupt("has a wrong checksum"));
    }
    Ok(())
}
