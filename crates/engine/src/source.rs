//! The source of a project: read, edited by path, imported whole.

mod import;

use stead_domain::changes::Changes;
use stead_domain::key::Caller;
use stead_domain::ports::BlobFile;
use stead_domain::project::Project;
use stead_domain::source::{self, EntryKind, SourceDecision, SourceEntry, TreeSize};
use stead_domain::{BlobId, Code, Error, ProjectId, Result, SourcePath, Timestamp};

pub use self::import::{ImportReport, SkippedMember};
use crate::commit::{blobs_failed, store_failed};
use crate::engine::Engine;
use crate::spool::{Spooled, too_large};

/// A file of a source, open.
#[derive(Debug)]
pub struct OpenFile {
    /// Its bytes.
    pub file: BlobFile,
    /// Their number.
    pub bytes: u64,
    /// Whether it may be executed.
    pub executable: bool,
    /// When it was last written.
    pub modified_at: Timestamp,
    /// The address of its bytes.
    pub blob: BlobId,
}

fn file_not_found() -> Error {
    Error::new(Code::FileNotFound, "there is no such file or directory in the project").at("path")
}

/// The project row and the edit, in one commit: the row's version orders the edits of a source.
fn edit(mut project: Project, decision: SourceDecision, at: Timestamp) -> Changes {
    let id = project.id;
    project.source = decision.size;
    project.source_revision += 1;
    project.updated_at = at;
    Changes::new().update(project).source(id, decision.edit)
}

impl Engine {
    /// The whole tree, every file and every directory, ordered by path.
    pub async fn source_list(&self, caller: &Caller, id: ProjectId) -> Result<(Vec<SourceEntry>, TreeSize)> {
        let project = self.live_project(caller, id).await?;
        let entries = self.store.source_list(id).await.map_err(store_failed)?;
        Ok((entries, project.source))
    }

    /// One file.
    pub async fn source_read(&self, caller: &Caller, id: ProjectId, path: &SourcePath) -> Result<OpenFile> {
        self.live_project(caller, id).await?;
        let found = self.store.source_at(id, std::slice::from_ref(path)).await.map_err(store_failed)?;
        let entry = found.into_iter().next().ok_or_else(file_not_found)?;
        match entry.kind {
            EntryKind::Directory => Err(Error::new(Code::ProjectInvalid, "the path names a directory").at("path")),
            EntryKind::File { executable, size, blob } => {
                let file = self.blobs.open(caller.workspace_id, blob).await.map_err(blobs_failed)?;
                Ok(OpenFile { file, bytes: size, executable, modified_at: entry.modified_at, blob })
            }
        }
    }

    /// Writes one file; its directories are made. Without `executable` an existing file keeps its bit.
    pub async fn source_write(
        &self,
        caller: &Caller,
        id: ProjectId,
        path: SourcePath,
        executable: Option<bool>,
        body: Spooled,
    ) -> Result<SourceEntry> {
        let limit = self.settings.limits.file_bytes;
        if body.bytes > limit {
            return Err(too_large(limit));
        }
        self.live_project(caller, id).await?;
        let stored = self.adopt(caller.workspace_id, body).await?;
        let _through = self.projects.enter(id).await;
        self.decide(|| async {
            let project = self.live_project(caller, id).await?;
            let nearby = self.nearby(id, &path).await?;
            let kept = nearby
                .iter()
                .find(|entry| entry.path == path)
                .is_some_and(|entry| matches!(entry.kind, EntryKind::File { executable, .. } if executable));
            let at = self.now();
            let kind = EntryKind::File { executable: executable.unwrap_or(kept), size: stored.bytes, blob: stored.id };
            let entry = SourceEntry { path: path.clone(), kind, modified_at: at };
            let decision = source::write_file(&nearby, project.source, entry.clone())?;
            Ok((edit(project, decision, at), entry))
        })
        .await
    }

    /// Makes an empty directory.
    pub async fn source_mkdir(&self, caller: &Caller, id: ProjectId, path: SourcePath) -> Result<()> {
        let _through = self.projects.enter(id).await;
        self.decide(|| async {
            let project = self.live_project(caller, id).await?;
            let nearby = self.nearby(id, &path).await?;
            let at = self.now();
            let decision = source::make_directory(&nearby, project.source, &path, at)?;
            Ok((edit(project, decision, at), ()))
        })
        .await
    }

    /// Removes a file or a directory tree.
    pub async fn source_remove(&self, caller: &Caller, id: ProjectId, path: &SourcePath) -> Result<()> {
        let _through = self.projects.enter(id).await;
        self.decide(|| async {
            let project = self.live_project(caller, id).await?;
            let subtree = self.store.source_subtree(id, path).await.map_err(store_failed)?;
            let decision = source::remove_tree(&subtree, project.source, path)?;
            Ok((edit(project, decision, self.now()), ()))
        })
        .await
    }

    async fn nearby(&self, id: ProjectId, path: &SourcePath) -> Result<Vec<SourceEntry>> {
        let mut paths: Vec<SourcePath> = path.ancestors().collect();
        paths.push(path.clone());
        self.store.source_at(id, &paths).await.map_err(store_failed)
    }

    /// Makes a spooled body a durable blob.
    pub(crate) async fn adopt(
        &self,
        workspace: stead_domain::WorkspaceId,
        body: Spooled,
    ) -> Result<stead_domain::ports::StoredBlob> {
        let blobs = self.blobs.clone();
        let stored = self
            .blocking(move || blobs.adopt_blocking(workspace, body.path().to_owned()).map_err(blobs_failed))
            .await?;
        self.blobs.sync().await.map_err(blobs_failed)?;
        Ok(stored)
    }

    /// Runs blocking work on a thread of its own.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        tokio::task::spawn_blocking(work).await.map_err(Error::internal)?
    }
}
