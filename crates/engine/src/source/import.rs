//! A whole project at once (UHP Environments §3.1): all or nothing. The archive's bytes become blobs as they stream by; the
//! tree changes in one commit after the last of them, so a refused archive leaves the source as it was.

use std::fs::File;
use std::io::Seek as _;

use stead_bundles::archive::{ArchiveError, read_archive};
use stead_domain::key::Caller;
use stead_domain::source::{self, SourceEntry};
use stead_domain::{Code, Error, ProjectId, Result};

use super::edit;
use super::landing::{Landed, limit_reached, not_stored};
use super::preview::Preview;
use super::report::{ImportReport, SkippedMember, manifests};
use crate::commit::{blobs_failed, store_failed};
use crate::engine::Engine;
use crate::spool::Spooled;

fn refused(error: ArchiveError) -> Error {
    let message = error.to_string();
    match error {
        ArchiveError::TooLarge { limit, max } => limit_reached(limit, max, message),
        ArchiveError::Sink(error) | ArchiveError::Read(error) => not_stored(error),
        _ => Error::new(Code::ProjectInvalid, message),
    }
}

impl Engine {
    /// Lands an archive's tree, over what is there or in its place.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn source_import(
        &self,
        caller: &Caller,
        id: ProjectId,
        replace: bool,
        body: Spooled,
    ) -> Result<ImportReport> {
        self.live_project(caller, id).await?;
        let limits = self.import_limits();
        let room = self.blob_room(caller.workspace_id);
        let mut landing = self.landing(caller.workspace_id);
        let (landed, report) = self
            .blocking(move || {
                let mut input = File::open(body.path()).map_err(|error| refused(ArchiveError::Read(error)))?;
                if room.is_bounded() {
                    read_archive(&mut input, &limits, &mut Preview::new(room)).map_err(refused)?;
                    input.rewind().map_err(|error| refused(ArchiveError::Read(error)))?;
                }
                let report = read_archive(&mut input, &limits, &mut landing).map_err(refused)?;
                Ok((landing.finish()?, report))
            })
            .await?;
        let skipped_members = report
            .skipped
            .members
            .iter()
            .map(|member| SkippedMember { name: member.name.clone(), reason: member.reason.to_string() })
            .collect();
        landed.refuse_to_empty(replace, report.skipped.count + report.ignored)?;
        let imported = self.land(caller, id, replace, landed).await?;
        Ok(ImportReport { skipped: report.skipped.count, skipped_members, ..imported })
    }

    /// Makes what landed the source, or a part of it. The report lacks what did not land.
    pub(super) async fn land(
        &self,
        caller: &Caller,
        id: ProjectId,
        replace: bool,
        landed: Landed,
    ) -> Result<ImportReport> {
        self.blobs.sync().await.map_err(blobs_failed)?;
        self.faults.point("import.stored");
        let entries = landed.entries;
        let written = entries.iter().filter(|entry| !entry.is_directory()).count() as u64;
        let _through = self.projects.enter(id).await;
        let (size, found) = self
            .decide(|| async {
                let project = self.live_project(caller, id).await?;
                let existing: Vec<SourceEntry> =
                    if replace { Vec::new() } else { self.store.source_list(id).await.map_err(store_failed)? };
                let at = self.now();
                let most = self.settings.limits.import_members;
                let decision = source::import(&existing, replace, entries.clone(), most, at)?;
                let size = decision.size;
                self.require_file_room(project.source, size)?;
                let found = manifests(existing.iter().chain(&entries));
                Ok((edit(project, decision, at), (size, found)))
            })
            .await?;
        self.faults.point("import.committed");
        Ok(ImportReport {
            written,
            skipped: 0,
            skipped_members: Vec::new(),
            size,
            taken: None,
            submodules: Vec::new(),
            lfs_pointers: landed.lfs_pointers,
            ignored_manifests: self.ignored_manifests(caller.workspace_id, found).await,
        })
    }
}
