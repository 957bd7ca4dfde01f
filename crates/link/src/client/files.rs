//! Files of an environment, as the server lists, reads and writes them.
//!
//! The runtime resolves every path beneath its root and follows no link and crosses no mount; a listing names regular files only.
//! The answers come from inside the environment and prove nothing: the size of a read is bounded by the caller.

use std::sync::Arc;

use bytes::Bytes;

use super::connection::Connection;
use super::error::{LinkError, unexpected};
use super::stream::{Incoming, Stream};
use crate::reply::{FileEntry, FileInfo, Reply};
use crate::request::Request;

/// The file operations of a connection.
pub struct Files {
    connection: Arc<Connection>,
}

impl Files {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self { connection }
    }

    /// Begins to list the regular files beneath `root` (absolute), at most `max_entries`.
    pub fn list(&self, root: &str, max_entries: u64) -> Result<Listing, LinkError> {
        let stream = self.connection.open(&Request::List { root: root.to_owned(), max_entries }, false)?;
        Ok(Listing { stream, incomplete: false })
    }

    /// Opens `path` beneath `root` to read at most `length` bytes from `offset` on.
    pub async fn read(&self, root: &str, path: &str, offset: u64, length: u64) -> Result<FileRead, LinkError> {
        let mut stream = self
            .connection
            .open(&Request::Read { root: root.to_owned(), path: path.to_owned(), offset, length }, false)?;
        match stream.reply().await? {
            Reply::Opened(info) => Ok(FileRead { stream, info, remaining: length, length }),
            other => Err(unexpected("read", &other)),
        }
    }

    /// Writes a whole file beneath `root`, making directories as needed; answers when it is in place.
    pub async fn write(&self, root: &str, path: &str, bytes: &[u8], executable: bool) -> Result<(), LinkError> {
        let mut stream = self
            .connection
            .open(&Request::Write { root: root.to_owned(), path: path.to_owned(), executable }, false)?;
        match stream.send_data(bytes).await {
            Ok(()) => stream.send(&Request::DataEnd {})?,
            // Refused before all was sent: the reason waits in the stream.
            Err(LinkError::Ended) => {}
            Err(error) => return Err(error),
        }
        match stream.reply().await? {
            Reply::Written { .. } => Ok(()),
            other => Err(unexpected("write", &other)),
        }
    }
}

/// A listing under way.
pub struct Listing {
    stream: Stream,
    incomplete: bool,
}

impl Listing {
    /// The next page; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<Vec<FileEntry>>, LinkError> {
        if self.stream.has_ended() {
            return Ok(None);
        }
        match self.stream.reply().await? {
            Reply::Entries { entries } => Ok(Some(entries)),
            Reply::Listed { incomplete } => {
                self.incomplete = incomplete;
                Ok(None)
            }
            other => Err(unexpected("list", &other)),
        }
    }

    /// Whether something was left out; known after the last page.
    pub fn incomplete(&self) -> bool {
        self.incomplete
    }

    /// All pages, and whether something was left out.
    pub async fn collect(mut self) -> Result<(Vec<FileEntry>, bool), LinkError> {
        let mut all = Vec::new();
        while let Some(mut page) = self.next().await? {
            all.append(&mut page);
        }
        Ok((all, self.incomplete))
    }
}

/// A file that is being read.
pub struct FileRead {
    stream: Stream,
    info: FileInfo,
    remaining: u64,
    length: u64,
}

impl FileRead {
    /// What the runtime knew when it opened the file.
    pub fn info(&self) -> &FileInfo {
        &self.info
    }

    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, LinkError> {
        if self.stream.has_ended() {
            return Ok(None);
        }
        match self.stream.next().await? {
            Incoming::Data(bytes) => {
                self.remaining =
                    self.remaining.checked_sub(bytes.len() as u64).ok_or(LinkError::TooMuch { limit: self.length })?;
                Ok(Some(bytes))
            }
            Incoming::Message(Reply::DataEnd {}, _) => Ok(None),
            Incoming::Message(other, _) => Err(unexpected("read", &other)),
            Incoming::DataError(_) => Err(LinkError::Protocol { reason: "standard error from a file".to_owned() }),
        }
    }

    /// All the bytes; no more than were asked for.
    pub async fn collect(mut self) -> Result<Vec<u8>, LinkError> {
        let mut all = Vec::new();
        while let Some(bytes) = self.next().await? {
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }
}
