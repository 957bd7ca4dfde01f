//! File operations for the server: listing, reading and writing beneath a root.
//!
//! They run inside the poll loop in short steps, and only as far as their reader has given credit. Every path is resolved
//! by the kernel beneath its root, over no link and no mount, and only regular files are ever opened for reading.

mod beneath;
mod list;
mod read;
mod write;

use stead_link::ErrorCode;

use crate::connection::Connection;
pub(crate) use list::ListJob;
pub(crate) use read::ReadJob;
pub(crate) use write::WriteJob;

/// A file operation under way.
pub(crate) enum Job {
    List(ListJob),
    Read(ReadJob),
    Write(WriteJob),
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It waits for credit or data.
    Waiting,
    /// There is more to do at once.
    Working,
    /// The stream has ended.
    Done,
}

/// Why a file operation failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The path is not one that is served.
    #[error("the path {0:?} leads out of its root or over a link or a mount")]
    Refused(String),
    /// Not what the operation needs.
    #[error("{0:?} is not {1}")]
    Kind(String, &'static str),
    /// The system refused.
    #[error("cannot {action} {path:?}: {source}")]
    System { action: &'static str, path: String, source: rustix::io::Errno },
}

impl FileError {
    pub(crate) fn code(&self) -> ErrorCode {
        use rustix::io::Errno;
        match self {
            Self::Refused(_) => ErrorCode::PathRefused,
            Self::Kind(..) => ErrorCode::NotAFile,
            Self::System { source, .. } => match *source {
                Errno::NOENT => ErrorCode::NotFound,
                Errno::NOTDIR | Errno::ISDIR | Errno::NXIO => ErrorCode::NotAFile,
                _ => ErrorCode::Io,
            },
        }
    }
}

impl Job {
    /// Does a little and sends what came of it.
    pub(crate) fn step(&mut self, connection: &mut Connection, stream: u32, scratch: &mut [u8]) -> Progress {
        let outcome = match self {
            Self::List(job) => Ok(job.step(connection, stream)),
            Self::Read(job) => job.step(connection, stream, scratch),
            Self::Write(_) => Ok(Progress::Waiting),
        };
        outcome.unwrap_or_else(|error| {
            connection.refuse(stream, error.code(), error.to_string());
            Progress::Done
        })
    }

    /// Whether a step would do something.
    pub(crate) fn is_ready(&self, connection: &Connection, stream: u32) -> bool {
        match self {
            Self::List(_) => connection.affords(stream, list::MAX_PAGE),
            Self::Read(_) => connection.allowance(stream).is_some(),
            Self::Write(_) => false,
        }
    }
}
