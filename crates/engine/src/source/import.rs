//! A whole project at once (UHP Environments §3.1): all or nothing. The archive's bytes become blobs as they stream by; the
//! tree changes in one commit after the last of them, so a refused archive leaves the source as it was.

use std::fs::File;
use std::io::{self, Cursor, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use stead_bundles::archive::{ArchiveError, Limit, Limits as ArchiveLimits, Sink, read_archive};
use stead_bundles::path::BundlePath;
use stead_domain::key::Caller;
use stead_domain::ports::{BlobError, Blobs, StoredBlob};
use stead_domain::source::{self, EntryKind, SourceEntry, TreeSize};
use stead_domain::{Code, Error, ProjectId, Result, SourcePath, Timestamp, WorkspaceId};

use super::edit;
use crate::commit::{blobs_failed, store_failed};
use crate::engine::Engine;
use crate::spool::Spooled;

/// A member of an archive that did not land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedMember {
    /// Its name, shortened and made printable.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// Files that landed.
    pub written: u64,
    /// How many members did not land.
    pub skipped: u64,
    /// The first of them, with the reasons.
    pub skipped_members: Vec<SkippedMember>,
    /// The source's size afterwards.
    pub size: TreeSize,
}

/// A file up to this size is kept in memory on its way to the blob store.
const IN_MEMORY: usize = 4 << 20;

struct Landing {
    blobs: Arc<dyn Blobs>,
    workspace: WorkspaceId,
    spill: PathBuf,
    at: Timestamp,
    entries: Vec<SourceEntry>,
    current: Option<Current>,
}

struct Current {
    path: SourcePath,
    executable: bool,
    head: Vec<u8>,
    spilled: Option<File>,
}

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
}

impl Sink for Landing {
    fn directory(&mut self, path: &BundlePath) -> io::Result<()> {
        let path = landing_path(path)?;
        self.entries.push(SourceEntry { path, kind: EntryKind::Directory, modified_at: self.at });
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
        let kind = EntryKind::File { executable: current.executable, size: stored.bytes, blob: stored.id };
        self.entries.push(SourceEntry { path: current.path, kind, modified_at: self.at });
        Ok(())
    }
}

fn refused(error: ArchiveError) -> Error {
    let message = error.to_string();
    match error {
        ArchiveError::TooLarge { limit, max } => {
            let detail = match limit {
                Limit::Members => json!({ "max_members": max }),
                _ => json!({ "max_bytes": max }),
            };
            Error::new(Code::FileTooLarge, message).detail(detail)
        }
        ArchiveError::Read(_) | ArchiveError::Sink(_) => {
            Error::new(Code::BackendUnavailable, "the server cannot store the archive's members").because(error)
        }
        _ => Error::new(Code::ProjectInvalid, message),
    }
}

impl Engine {
    /// Lands an archive's tree, over what is there or in its place.
    pub async fn source_import(
        &self,
        caller: &Caller,
        id: ProjectId,
        replace: bool,
        body: Spooled,
    ) -> Result<ImportReport> {
        self.live_project(caller, id).await?;
        let limits = &self.settings.limits;
        let archive_limits = ArchiveLimits {
            archive_bytes: limits.import_bytes,
            expanded_bytes: limits.import_expanded_bytes,
            file_bytes: limits.file_bytes,
            members: limits.import_members,
            ..ArchiveLimits::default()
        };
        let mut landing = Landing {
            blobs: self.blobs.clone(),
            workspace: caller.workspace_id,
            spill: body.path().with_extension("member"),
            at: self.now(),
            entries: Vec::new(),
            current: None,
        };
        let (entries, report) = self
            .blocking(move || {
                let mut input = File::open(body.path()).map_err(|error| refused(ArchiveError::Read(error)))?;
                let report = read_archive(&mut input, &archive_limits, &mut landing);
                // A member that spilled and was refused half-way is left behind; gone is gone.
                let _ = std::fs::remove_file(&landing.spill);
                Ok((landing.entries, report.map_err(refused)?))
            })
            .await?;
        self.blobs.sync().await.map_err(blobs_failed)?;
        let written = entries.iter().filter(|entry| !entry.is_directory()).count() as u64;
        let _through = self.projects.enter(id).await;
        let size = self
            .decide(|| async {
                let project = self.live_project(caller, id).await?;
                let existing =
                    if replace { Vec::new() } else { self.store.source_list(id).await.map_err(store_failed)? };
                let at = self.now();
                let decision = source::import(&existing, replace, entries.clone(), at);
                let size = decision.size;
                Ok((edit(project, decision, at), size))
            })
            .await?;
        let skipped_members = report
            .skipped
            .members
            .iter()
            .map(|member| SkippedMember { name: member.name.clone(), reason: member.reason.to_string() })
            .collect();
        Ok(ImportReport { written, skipped: report.skipped.count, skipped_members, size })
    }
}
