//! Import of a git repository (UHP Environments §3.1).
//!
//! ```text
//! judge address and ref ─▶ a place among those at work ─▶ host reached and allowed? ─▶ sandbox
//!   ─▶ which refs are there ─▶ fetch one commit ─▶ list its files ─▶ read their bytes ─▶ blobs ─▶ one commit to the source
//! ```
//!
//! git runs where build steps run, with one host to reach and nothing of the project to see. Nothing is checked out: the bytes
//! are read from the object database, so that no filter, hook, attribute or link of the repository has a say.

mod commands;
mod fetch;
mod files;
mod places;
mod refusal;
mod request;
mod workshop;

use stead_bundles::git::submodule_urls;
use stead_domain::key::Caller;
use stead_domain::ports::Endpoint;
use stead_domain::{ProjectId, Result, WorkspaceId};

use self::commands::Commands;
pub(crate) use self::places::ImportPlaces;
use self::places::Place;
pub use self::request::GitImport;
use self::workshop::Workshop;
use super::landing::Landed;
use super::report::{ImportReport, LISTED, SkippedMember, Submodule, Taken};
use crate::engine::Engine;

/// What came of a repository.
struct Fetched {
    taken: Taken,
    landed: Landed,
    skipped: u64,
    skipped_members: Vec<SkippedMember>,
    submodules: Vec<String>,
}

impl Engine {
    /// Lands a commit's tree, over what is there or in its place.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn source_import_git(
        &self,
        caller: &Caller,
        id: ProjectId,
        replace: bool,
        import: GitImport,
    ) -> Result<ImportReport> {
        self.live_project(caller, id).await?;
        self.require_blob_room(caller.workspace_id, 0).await?;
        let place = self.imports.enter(caller.workspace_id).await?;
        let fetched = self.imports.unless_closing(self.fetch_in_sandbox(caller, id, &import, place)).await?;
        fetched.landed.refuse_to_empty(replace, fetched.skipped)?;
        let urls = submodule_urls(&fetched.landed.submodules);
        let submodules = fetched.submodules.into_iter().take(LISTED);
        let submodules = submodules.map(|path| Submodule { url: urls.get(&path).cloned(), path }).collect();
        let imported = self.land(caller, id, replace, fetched.landed).await?;
        tracing::info!(project.id = %id, commit = fetched.taken.commit, files = imported.written, "imported from git");
        Ok(ImportReport {
            skipped: fetched.skipped,
            skipped_members: fetched.skipped_members,
            taken: Some(fetched.taken),
            submodules,
            ..imported
        })
    }

    /// Everything that needs the host or the sandbox, which is gone soon after this has returned.
    async fn fetch_in_sandbox(
        &self,
        caller: &Caller,
        id: ProjectId,
        import: &GitImport,
        place: Place,
    ) -> Result<Fetched> {
        let endpoint = self.git_endpoint(import);
        self.sandboxes.probe(&endpoint).await.map_err(|error| refusal::not_reached(&error))?;
        let workshop = self.open_workshop(caller.workspace_id, id, endpoint, place).await?;
        self.faults.point("import.opened");
        let fetched = tokio::time::timeout(
            self.settings.git.time_limit,
            self.fetch_and_land(caller.workspace_id, import, &workshop),
        );
        match fetched.await {
            Ok(Ok(fetched)) => Ok(fetched),
            Ok(Err(error)) => {
                // Only now can it be told whether a limit ended git.
                let limit = workshop.sandbox()?.limits_reached().await.into_iter().next();
                Err(limit.map_or(error, |limit| self.git_exceeded(&limit)))
            }
            Err(_) => Err(self.git_took_too_long()),
        }
    }

    /// The one host that the import may reach.
    fn git_endpoint(&self, import: &GitImport) -> Endpoint {
        let host = import.url.host();
        let bare = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        let allowed = self.settings.git.allowed_hosts.iter().any(|allowed| {
            allowed.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').eq_ignore_ascii_case(bare)
        });
        // What is fetched is bounded by the disk it lands on; this bounds what is asked for again and again.
        let total_bytes = self.settings.limits.import_bytes.saturating_mul(2).saturating_add(64 << 20);
        Endpoint { host: host.to_owned(), ports: import.url.ports(), allowed, total_bytes }
    }

    async fn fetch_and_land(&self, workspace: WorkspaceId, import: &GitImport, workshop: &Workshop) -> Result<Fetched> {
        let runtime = workshop.sandbox()?.runtime();
        let commands = Commands { runtime, import, time_limit: self.settings.git.time_limit };
        let taken = self.git_fetch(&commands).await?;
        self.faults.point("import.fetched");
        // A fast host may have brought too much between two looks.
        if let Some(limit) = workshop.sandbox()?.limits_reached().await.first() {
            return Err(self.git_exceeded(limit));
        }
        let tree = self.git_tree(&commands, &taken.commit).await?;
        let skipped_members = tree.skipped_members.iter();
        let skipped_members = skipped_members
            .map(|member| SkippedMember { name: member.name.clone(), reason: member.reason.to_string() })
            .collect();
        let landed = self.git_files(&commands, workspace, tree.files).await?;
        Ok(Fetched { taken, landed, skipped: tree.skipped, skipped_members, submodules: tree.submodules })
    }
}
