//! Request bodies on their way in: written to disk under a byte limit before anything is decided, so that a body of any size
//! costs a buffer of memory, and a refused one leaves nothing behind.

use std::path::PathBuf;

use serde_json::json;
use stead_domain::{Code, Error, Result};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use crate::engine::Engine;

/// A file that vanishes with its owner, unless somebody moved it away.
#[derive(Debug)]
struct Vanishing(PathBuf);

impl Drop for Vanishing {
    fn drop(&mut self) {
        // A leftover is removed at the next start, so a failure here is no loss.
        let path = std::mem::take(&mut self.0);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { tokio::fs::remove_file(path).await });
        }
    }
}

/// Takes a body in pieces.
#[derive(Debug)]
pub struct SpoolWriter {
    file: File,
    path: Vanishing,
    bytes: u64,
    limit: u64,
}

/// A body that came whole.
#[derive(Debug)]
pub struct Spooled {
    path: Vanishing,
    /// Its size.
    pub bytes: u64,
}

impl Spooled {
    /// Where it lies, until the value is dropped.
    pub fn path(&self) -> &std::path::Path {
        &self.path.0
    }
}

/// The refusal of a body that is larger than `limit` bytes.
pub(crate) fn too_large(limit: u64) -> Error {
    Error::new(Code::FileTooLarge, format!("more than the {limit} bytes that fit here"))
        .detail(json!({ "max_bytes": limit }))
}

fn spool_failed(error: std::io::Error) -> Error {
    Error::new(Code::BackendUnavailable, "the server cannot take the body to disk").because(error)
}

impl SpoolWriter {
    /// Adds a piece; refuses the one that passes the limit.
    pub async fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.bytes += piece.len() as u64;
        if self.bytes > self.limit {
            return Err(too_large(self.limit));
        }
        self.file.write_all(piece).await.map_err(spool_failed)
    }

    /// The body came whole.
    pub async fn finish(mut self) -> Result<Spooled> {
        self.file.flush().await.map_err(spool_failed)?;
        Ok(Spooled { path: self.path, bytes: self.bytes })
    }
}

impl Engine {
    /// Begins to take a body of at most `limit` bytes.
    pub async fn spool(&self, limit: u64) -> Result<SpoolWriter> {
        let path = self.settings.spool.join(self.ids.uuid_v7().simple().to_string());
        let path = Vanishing(path);
        let file = File::options().write(true).create_new(true).open(&path.0).await.map_err(spool_failed)?;
        Ok(SpoolWriter { file, path, bytes: 0, limit })
    }

    /// Makes the spool, which is nobody else's to look into, and empties it of what an earlier process left.
    pub(crate) async fn clear_spool(&self) -> std::io::Result<()> {
        tokio::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.settings.spool).await?;
        let mut entries = tokio::fs::read_dir(&self.settings.spool).await?;
        while let Some(entry) = entries.next_entry().await? {
            tokio::fs::remove_file(entry.path()).await?;
        }
        Ok(())
    }
}
