//! The source of a project: read, edited by path, imported whole.

mod git;
mod import;
mod landing;
mod preview;
mod report;

use stead_domain::changes::Changes;
use stead_domain::key::Caller;
use stead_domain::precondition::Precondition;
use stead_domain::project::Project;
use stead_domain::source::{self, EntryKind, SourceDecision, SourceEdit, SourceEntry, TreeSize};
use stead_domain::{Code, Error, ProjectId, Result, SourcePath, Timestamp};

pub use self::git::GitImport;
pub(crate) use self::git::ImportPlaces;
pub use self::report::{ImportReport, SkippedMember, Submodule, Taken};
use crate::commit::{blobs_failed, store_failed};
use crate::engine::Engine;
use crate::spool::{Spooled, too_large};

/// A part of a source's listing.
#[derive(Debug)]
pub struct SourcePage {
    /// Entries, ordered by the bytes of their paths.
    pub entries: Vec<SourceEntry>,
    /// Whether others follow.
    pub more: bool,
    /// The size of the whole source, as its row has it.
    pub size: TreeSize,
}

/// Which part of a source to list. Parts are read one by one: what is edited in between shows, or does not.
#[derive(Debug, Clone, Default)]
pub struct SourceSelection {
    /// Only what lies beneath this directory.
    pub under: Option<SourcePath>,
    /// Only what comes after this path, whether or not it is there.
    pub after: Option<SourcePath>,
    /// At most this many entries.
    pub limit: usize,
}

/// How a file is written.
#[derive(Debug, Clone)]
pub struct FileWrite {
    /// Where; its directories are made.
    pub path: SourcePath,
    /// Whether it may be executed; `None` keeps what the file at the path has.
    pub executable: Option<bool>,
    /// What has to stand at the path.
    pub precondition: Precondition,
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
    /// A part of a source's listing. A directory that is not there is refused; one that holds nothing is empty.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn source_page(&self, caller: &Caller, id: ProjectId, selection: &SourceSelection) -> Result<SourcePage> {
        let project = self.live_project(caller, id).await?;
        let SourceSelection { under, after, limit } = selection;
        let page = self.store.source_page(id, under.as_ref(), after.as_ref(), *limit).await.map_err(store_failed)?;
        if let Some(directory) = under.as_ref().filter(|_| page.rows.is_empty() && after.is_none()) {
            let there = self.entry(id, directory).await?;
            if !there.is_some_and(|entry| entry.is_directory()) {
                return Err(Error::new(Code::FileNotFound, "there is no such directory in the project").at("under"));
            }
        }
        Ok(SourcePage { entries: page.rows, more: page.more, size: project.source })
    }

    /// What stands at a path.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn source_entry(&self, caller: &Caller, id: ProjectId, path: &SourcePath) -> Result<SourceEntry> {
        self.live_project(caller, id).await?;
        self.entry(id, path).await?.ok_or_else(file_not_found)
    }

    /// Refuses a write whose refusal can be known before its bytes have come; what stands then decides.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn source_admit(&self, caller: &Caller, id: ProjectId, write: &FileWrite) -> Result<()> {
        self.live_project(caller, id).await?;
        if write.precondition.is_none() {
            return Ok(());
        }
        write.precondition.check(self.entry(id, &write.path).await?.as_ref())
    }

    /// Writes one file.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn source_write(
        &self,
        caller: &Caller,
        id: ProjectId,
        write: FileWrite,
        body: Spooled,
    ) -> Result<SourceEntry> {
        let limit = self.settings.limits.file_bytes;
        if body.bytes > limit {
            return Err(too_large(limit));
        }
        // A refused body is not kept; one that is refused only below is collected later.
        self.source_admit(caller, id, &write).await?;
        self.require_blob_room(caller.workspace_id, body.bytes).await?;
        let stored = self.adopt(caller.workspace_id, body).await?;
        self.faults.point("source.stored");
        let _through = self.projects.enter(id).await;
        let written = self
            .decide(|| async {
                let project = self.live_project(caller, id).await?;
                let nearby = self.nearby(id, &write.path).await?;
                let there = nearby.iter().find(|entry| entry.path == write.path);
                // Decided on the rows that the commit compares with: of two writers that require the same, one is refused.
                write.precondition.check(there)?;
                let executable = write.executable.unwrap_or_else(|| there.is_some_and(SourceEntry::is_executable));
                let at = self.now();
                let kind = EntryKind::File { executable, size: stored.bytes, blob: stored.id };
                let entry = SourceEntry { path: write.path.clone(), kind, modified_at: at };
                let decision = source::write_file(&nearby, project.source, entry.clone())?;
                self.require_file_room(project.source, decision.size)?;
                Ok((edit(project, decision, at), entry))
            })
            .await?;
        self.faults.point("source.committed");
        Ok(written)
    }

    /// Sets or clears a file's executable bit without its bytes.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn source_set_executable(
        &self,
        caller: &Caller,
        id: ProjectId,
        path: &SourcePath,
        executable: bool,
        precondition: &Precondition,
    ) -> Result<SourceEntry> {
        let _through = self.projects.enter(id).await;
        self.decide(|| async {
            let project = self.live_project(caller, id).await?;
            let there = self.entry(id, path).await?.ok_or_else(file_not_found)?;
            precondition.check(Some(&there))?;
            let Some(changed) = source::set_executable(&there, executable)? else {
                return Ok((Changes::new(), there));
            };
            let edited = SourceEdit { written: vec![changed.clone()], ..SourceEdit::default() };
            let decision = SourceDecision { edit: edited, size: project.source };
            Ok((edit(project, decision, self.now()), changed))
        })
        .await
    }

    /// Makes an empty directory.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
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
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn source_remove(
        &self,
        caller: &Caller,
        id: ProjectId,
        path: &SourcePath,
        precondition: &Precondition,
    ) -> Result<()> {
        let _through = self.projects.enter(id).await;
        self.decide(|| async {
            let project = self.live_project(caller, id).await?;
            let subtree = self.store.source_subtree(id, path).await.map_err(store_failed)?;
            precondition.check(subtree.iter().find(|entry| entry.path == *path))?;
            let decision = source::remove_tree(&subtree, project.source, path)?;
            Ok((edit(project, decision, self.now()), ()))
        })
        .await
    }

    async fn entry(&self, id: ProjectId, path: &SourcePath) -> Result<Option<SourceEntry>> {
        let found = self.store.source_at(id, std::slice::from_ref(path)).await.map_err(store_failed)?;
        Ok(found.into_iter().next())
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
