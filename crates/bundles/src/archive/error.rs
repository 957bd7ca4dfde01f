//! What can be wrong with an archive, in words for the person who sent it.

use std::io;

use super::limits::Limit;

/// Why an archive was refused. Nothing of it may be kept.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The bytes are none of the accepted formats.
    #[error("{found}; send a zip, tar, tar.gz, tar.bz2, tar.xz or tar.zst")]
    NotAnArchive {
        /// What the bytes look like instead.
        found: &'static str,
    },
    /// A zip member needs a password.
    #[error("the zip is encrypted (member `{member}`); send it without a password")]
    Encrypted {
        /// The first encrypted member.
        member: String,
    },
    /// The archive contradicts itself or ends early.
    #[error("the archive is corrupt: {what}")]
    Corrupt {
        /// The part that is wrong.
        what: String,
    },
    /// A limit was reached; see [`Limit`].
    #[error("the archive exceeds the limit on {limit} ({max})")]
    TooLarge {
        /// Which limit.
        limit: Limit,
        /// Its value, in the unit of the limit.
        max: u64,
    },
    /// A feature of the format that is not read.
    #[error("the archive uses {what}, which is not supported")]
    Unsupported {
        /// The feature.
        what: String,
    },
    /// The spooled input could not be read; not the sender's fault.
    #[error("failed to read the spooled archive")]
    Read(#[source] io::Error),
    /// The sink refused a member.
    #[error("failed to store a member of the archive")]
    Sink(#[source] io::Error),
}

impl ArchiveError {
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into() }
    }

    /// Tells a decoder's complaint about the bytes from a failure of the disk below it.
    pub(crate) fn from_decoder(error: io::Error) -> Self {
        if error.raw_os_error().is_some() {
            return Self::Read(error);
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::corrupt("it ends too early"),
            io::ErrorKind::Unsupported => Self::Unsupported { what: error.to_string() },
            _ => Self::corrupt(error.to_string()),
        }
    }
}

/// A member's name as it may appear in a message: bounded, without control characters.
pub(crate) fn shown(name: &str) -> String {
    const SHOWN_CHARACTERS: usize = 200;
    let mut text: String =
        name.chars().take(SHOWN_CHARACTERS).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if name.chars().nth(SHOWN_CHARACTERS).is_some() {
        text.push('…');
    }
    text
}
