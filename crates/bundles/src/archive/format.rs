//! Telling formats apart by content; names and content types are not asked, because they are wrong too often.

use super::{error::ArchiveError, tar_header};

/// How many bytes [`Format::detect`] needs to see: one tar block.
pub(crate) const HEAD_BYTES: usize = 512;

/// A format that [`super::read_archive`] reads. The compressed ones must hold a tar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A zip.
    Zip,
    /// A tar as it is.
    Tar,
    /// A tar in gzip.
    TarGzip,
    /// A tar in bzip2.
    TarBzip2,
    /// A tar in xz.
    TarXz,
    /// A tar in Zstandard.
    TarZstd,
}

impl Format {
    /// Names the format from the first 512 bytes (fewer when the input is shorter).
    pub fn detect(head: &[u8]) -> Option<Self> {
        match head {
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] | [b'P', b'K', 7, 8, ..] => Some(Self::Zip),
            [b'P', b'K', b'0', b'0', b'P', b'K', ..] => Some(Self::Zip),
            _ => Self::detect_compression(head).or_else(|| tar_header::looks_like_header(head).then_some(Self::Tar)),
        }
    }

    /// Names the compression from a stream's first bytes.
    pub(crate) fn detect_compression(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, 8, ..] => Some(Self::TarGzip),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some(Self::TarBzip2),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::TarXz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::TarZstd),
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::TarZstd),
            _ => None,
        }
    }
}

/// The refusal for bytes that are no accepted format, naming what they are where that helps.
pub(crate) fn refuse(head: &[u8]) -> ArchiveError {
    let known = match head {
        [] => return ArchiveError::NotAnArchive { found: "the body is empty" },
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => "the 7z format",
        [b'R', b'a', b'r', b'!', ..] => "the rar format",
        [0x1f, 0x9d, ..] => "compress (.Z)",
        [0x04, 0x22, 0x4d, 0x18, ..] => "lz4",
        _ => return ArchiveError::NotAnArchive { found: "the body is not an archive" },
    };
    ArchiveError::Unsupported { what: format!("{known} (send a zip, tar, tar.gz, tar.bz2, tar.xz or tar.zst)") }
}
