//! The runtime inside a sandbox, as the port describes it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stead_domain::ports::{Adopted, Exec, ExecRequest, FileEntry, PortFuture, Runtime, RuntimeError};
use stead_link::LinkError;

use crate::exec;
use crate::fault::chain;
use crate::pulse::while_alive;
use crate::sandbox::Sandbox;

/// The link takes a file as a whole, so its pieces wait here; all of them together hold no more than this many bytes.
const PIECES_LIMIT: usize = 512 << 20;

/// The runtime of one sandbox. All users share one connection, which is dialled again when it was lost.
pub(crate) struct NativeRuntime {
    sandbox: Arc<Sandbox>,
    /// The longest any command may take.
    time_limit: Option<Duration>,
    /// Files that are being written, by directory and path.
    pieces: Mutex<HashMap<(String, String), Vec<u8>>>,
}

impl NativeRuntime {
    pub(crate) fn new(sandbox: Arc<Sandbox>, time_limit: Option<Duration>) -> Self {
        Self { sandbox, time_limit, pieces: Mutex::default() }
    }

    /// Adds a piece; gives the whole file out when it was the last.
    fn add_piece(
        &self,
        directory: &str,
        path: &str,
        offset: u64,
        bytes: &[u8],
        last: bool,
    ) -> Result<Option<Vec<u8>>, RuntimeError> {
        if offset == 0 && last {
            return Ok(Some(bytes.to_vec()));
        }
        let refused = |message: &str| Err(RuntimeError::Refused(message.to_owned()));
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (directory.to_owned(), path.to_owned());
        let mut file = pieces.remove(&key).unwrap_or_default();
        if offset == 0 {
            file.clear();
        }
        if file.len() as u64 != offset {
            return refused("a piece of the file is missing");
        }
        if pieces.values().map(Vec::len).sum::<usize>() + file.len() + bytes.len() > PIECES_LIMIT {
            return refused("the file is too large to be written");
        }
        file.extend_from_slice(bytes);
        if last {
            return Ok(Some(file));
        }
        pieces.insert(key, file);
        Ok(None)
    }
}

impl Runtime for NativeRuntime {
    fn exec(&self, mut request: ExecRequest) -> PortFuture<'_, Result<Box<dyn Exec>, RuntimeError>> {
        Box::pin(async move {
            request.time_limit = request.time_limit.into_iter().chain(self.time_limit).min();
            exec::begin(&self.sandbox, &self.sandbox.client().await?, request).await
        })
    }

    fn adopt<'a>(&'a self, name: &'a str, from: u64) -> PortFuture<'a, Result<Adopted, RuntimeError>> {
        Box::pin(async move { exec::adopt(&self.sandbox, &self.sandbox.client().await?, name, from).await })
    }

    fn list_files<'a>(
        &'a self,
        directory: &'a str,
        limit: usize,
    ) -> PortFuture<'a, Result<(Vec<FileEntry>, bool), RuntimeError>> {
        Box::pin(async move {
            let client = self.sandbox.client().await?;
            let listing = async {
                let mut listing = client.files().list(directory, limit as u64).map_err(fault)?;
                let mut found = Vec::new();
                while let Some(page) = listing.next().await.map_err(fault)? {
                    found.extend(page.into_iter().map(entry));
                    if found.len() > limit {
                        return Err(RuntimeError::Lost("the runtime listed more files than were asked for".to_owned()));
                    }
                }
                Ok((found, listing.incomplete()))
            };
            while_alive(&self.sandbox, &client, listing).await
        })
    }

    fn read_file<'a>(
        &'a self,
        directory: &'a str,
        path: &'a str,
        offset: u64,
        length: usize,
    ) -> PortFuture<'a, Result<Vec<u8>, RuntimeError>> {
        Box::pin(async move {
            let client = self.sandbox.client().await?;
            let reading = async { client.files().read(directory, path, offset, length as u64).await?.collect().await };
            while_alive(&self.sandbox, &client, reading).await.map_err(fault)
        })
    }

    fn write_file<'a>(
        &'a self,
        directory: &'a str,
        path: &'a str,
        offset: u64,
        bytes: &'a [u8],
        last: bool,
    ) -> PortFuture<'a, Result<(), RuntimeError>> {
        Box::pin(async move {
            let Some(whole) = self.add_piece(directory, path, offset, bytes, last)? else { return Ok(()) };
            let client = self.sandbox.client().await?;
            let files = client.files();
            while_alive(&self.sandbox, &client, files.write(directory, path, &whole, false)).await.map_err(fault)
        })
    }

    fn kill_all(&self) -> PortFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move {
            let client = self.sandbox.client().await?;
            match while_alive(&self.sandbox, &client, client.kill_all()).await.map_err(fault)? {
                0 => Ok(()),
                survivors => Err(RuntimeError::Refused(format!("{survivors} processes do not end"))),
            }
        })
    }
}

fn entry(entry: stead_link::FileEntry) -> FileEntry {
    let info = entry.info;
    FileEntry {
        path: entry.path,
        exact: !entry.lossy,
        bytes: info.size,
        stamp: format!("{}.{}.{}", info.mtime_ns, info.ctime_ns, info.inode),
    }
}

/// A failure of the link in the core's words.
pub(crate) fn fault(error: LinkError) -> RuntimeError {
    match error {
        LinkError::Refused { message, .. } => RuntimeError::Refused(message),
        error if exec::is_lost(&error) => RuntimeError::Lost(chain(&error)),
        error => RuntimeError::Refused(chain(&error)),
    }
}
