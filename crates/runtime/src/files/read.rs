//! Reading a part of a regular file.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::SeekFrom;
use stead_link::{Kind, Reply};

use super::{FileError, Progress, beneath};
use crate::connection::Connection;

/// A file that is being sent.
pub(crate) struct ReadJob {
    file: OwnedFd,
    path: String,
    remaining: u64,
}

impl ReadJob {
    /// Opens the file and announces it.
    pub(crate) fn new(root: &str, path: &str, offset: u64, length: u64) -> Result<(Self, Reply), FileError> {
        let root = beneath::root(root)?;
        let (file, info) = beneath::regular(root.as_fd(), path)?;
        rustix::fs::seek(&file, SeekFrom::Start(offset)).map_err(|error| beneath::explain(error, "seek in", path))?;
        let job = Self { file, path: path.to_owned(), remaining: length };
        Ok((job, Reply::Opened(info)))
    }

    pub(super) fn step(
        &mut self,
        connection: &mut Connection,
        stream: u32,
        scratch: &mut [u8],
    ) -> Result<Progress, FileError> {
        let Some(allowance) = connection.allowance(stream) else {
            return Ok(Progress::Waiting);
        };
        let remaining = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        let most = allowance.min(scratch.len()).min(remaining);
        let read = rustix::io::read(&self.file, &mut scratch[..most])
            .map_err(|error| beneath::explain(error, "read", &self.path))?;
        if read == 0 {
            connection.end(stream, &Reply::DataEnd {});
            return Ok(Progress::Done);
        }
        connection.send_data(Kind::Data, stream, &scratch[..read]);
        self.remaining -= read as u64;
        Ok(Progress::Working)
    }
}
