//! Where the files of an import land: their bytes become blobs as they stream by, their entries wait for the one commit.

use std::fs::File;
use std::io::{self, Cursor, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use stead_bundles::archive::{Limit, Limits as ArchiveLimits, Sink};
use stead_bundles::git::{POINTER_MAX_BYTES, is_lfs_pointer};
use stead_bundles::path::{BundlePath, PATH_MAX_BYTES};
use stead_domain::ports::{BlobError, Blobs, StoredBlob};
use stead_domain::source::{EntryKind, SourceEntry};
use stead_domain::{Code, Error, Result, SourcePath, Timestamp, WorkspaceId};

use super::report::LISTED;
use crate::engine::Engine;
use crate::quotas::BlobRoom;

/// A file up to this size is kept in memory on its way to the blob store.
const IN_MEMORY: usize = 4 << 20;
/// Where a repository says where its submodules come from, and the most that is read of it.
const SUBMODULES: &str = ".gitmodules";
const SUBMODULES_BYTES: usize = 256 << 10;

/// Takes files. Blocking.
pub(super) struct Landing {
    blobs: Arc<dyn Blobs>,
    workspace: WorkspaceId,
    spill: PathBuf,
    at: Timestamp,
    current: Option<Current>,
    room: BlobRoom,
    landed: Landed,
}

/// What has landed.
#[derive(Debug, Default)]
pub(super) struct Landed {
    pub(super) entries: Vec<SourceEntry>,
    /// The first files that are pointers.
    pub(super) lfs_pointers: Vec<String>,
    /// The text of `.gitmodules`.
    pub(super) submodules: Vec<u8>,
}

impl Landed {
    /// Refuses to put nothing in the place of everything: where members were sent and no file of them landed, what was sent is
    /// not what its sender takes it for.
    pub(super) fn refuse_to_empty(&self, replace: bool, left_out: u64) -> Result<()> {
        if !replace || left_out == 0 || self.entries.iter().any(|entry| !entry.is_directory()) {
            return Ok(());
        }
        let message = format!(
            "nothing would be left: all {left_out} members were left out, and the import replaces what is there"
        );
        Err(Error::new(Code::ProjectInvalid, message))
    }
}

struct Current {
    path: SourcePath,
    executable: bool,
    head: Vec<u8>,
    spilled: Option<File>,
}

/// What an archive lands is a path of a source: what is too long or too deep is skipped, by name, before it comes here.
const _: () = assert!(PATH_MAX_BYTES <= SourcePath::MAX);

fn landing_path(path: &BundlePath) -> io::Result<SourcePath> {
    SourcePath::parse(path.as_str()).map_err(io::Error::other)
}

impl Landing {
    fn store(&self, current: &mut Current) -> Result<StoredBlob, BlobError> {
        match current.spilled.take() {
            Some(file) => {
                drop(file);
                self.blobs.adopt_blocking(self.workspace, self.spill.clone())
            }
            None => self.blobs.put_blocking(self.workspace, &mut Cursor::new(&current.head)),
        }
    }

    /// What landed, once everything has been taken; refuses when the workspace has no room for it.
    pub(super) fn finish(mut self) -> Result<Landed> {
        self.room.check()?;
        Ok(std::mem::take(&mut self.landed))
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        // A member that spilled and was refused half-way is left behind; gone is gone.
        let _ = std::fs::remove_file(&self.spill);
    }
}

impl Sink for Landing {
    fn directory(&mut self, path: &BundlePath) -> io::Result<()> {
        let path = landing_path(path)?;
        self.landed.entries.push(SourceEntry { path, kind: EntryKind::Directory, modified_at: self.at });
        Ok(())
    }

    fn file(&mut self, path: &BundlePath, executable: bool, _size: u64) -> io::Result<()> {
        let path = landing_path(path)?;
        self.current = Some(Current { path, executable, head: Vec::new(), spilled: None });
        Ok(())
    }

    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let current = self.current.as_mut().ok_or_else(|| io::Error::other("a chunk outside a file"))?;
        if let Some(file) = &mut current.spilled {
            return file.write_all(bytes);
        }
        current.head.extend_from_slice(bytes);
        if current.head.len() > IN_MEMORY {
            let mut file = File::create(&self.spill)?;
            file.write_all(&current.head)?;
            current.head = Vec::new();
            current.spilled = Some(file);
        }
        Ok(())
    }

    fn file_end(&mut self) -> io::Result<()> {
        let mut current = self.current.take().ok_or_else(|| io::Error::other("an end outside a file"))?;
        let stored = self.store(&mut current).map_err(io::Error::other)?;
        self.room.note(stored.bytes).map_err(io::Error::other)?;
        let small = stored.bytes < POINTER_MAX_BYTES as u64;
        if small && is_lfs_pointer(&current.head) && self.landed.lfs_pointers.len() < LISTED {
            self.landed.lfs_pointers.push(current.path.to_string());
        }
        if current.path.as_str() == SUBMODULES && current.head.len() <= SUBMODULES_BYTES {
            self.landed.submodules = current.head;
        }
        let kind = EntryKind::File { executable: current.executable, size: stored.bytes, blob: stored.id };
        self.landed.entries.push(SourceEntry { path: current.path, kind, modified_at: self.at });
        Ok(())
    }
}

/// A limit on imports that was reached.
pub(super) fn limit_reached(limit: Limit, max: u64, message: String) -> Error {
    let detail = match limit {
        Limit::Members => json!({ "max_members": max }),
        _ => json!({ "max_bytes": max }),
    };
    Error::new(Code::FileTooLarge, message).detail(detail)
}

/// Why a file could not be taken: a quota was reached while it was stored, or the server is at fault.
pub(super) fn not_stored(error: io::Error) -> Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(refusal) => refusal.clone(),
        None => Error::new(Code::BackendUnavailable, "the server cannot store the import's files").because(error),
    }
}

impl Engine {
    /// A place for the files of one import.
    pub(super) fn landing(&self, workspace: WorkspaceId) -> Landing {
        let name = format!("{}.member", self.ids.uuid_v7().simple());
        Landing {
            blobs: self.blobs.clone(),
            workspace,
            spill: self.settings.spool.join(name),
            at: self.now(),
            current: None,
            room: self.blob_room(workspace),
            landed: Landed::default(),
        }
    }

    /// How much an import may bring.
    pub(super) fn import_limits(&self) -> ArchiveLimits {
        let limits = &self.settings.limits;
        ArchiveLimits {
            archive_bytes: limits.import_bytes,
            expanded_bytes: limits.import_expanded_bytes,
            file_bytes: limits.file_bytes,
            members: limits.import_members,
            depth: SourcePath::MAX_DEPTH,
        }
    }
}
