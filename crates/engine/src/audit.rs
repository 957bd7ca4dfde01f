//! The audit log read and shortened. Its entries are written by `request`, with the commits they tell of.
//!
//! What was refused is not in it: it tells of changes, each with the commit that made it, and is as large as what was done. Who is
//! refused changes nothing; entries for it would need commits of their own, and anybody without a key could fill the log with them.
//! Refusals are counted and logged.

use stead_domain::audit::{AuditEntry, AuditTarget};
use stead_domain::changes::Changes;
use stead_domain::key::Caller;
use stead_domain::ports::Page;
use stead_domain::{AuditId, Result, WorkspaceId};

use crate::commit::store_failed;
use crate::engine::Engine;

impl Engine {
    /// Who did what, newest first: in the caller's workspace, and for an operator in the one named by its id or name, or in all.
    /// At most `limit` entries, those older than `before`.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn audit_list(
        &self,
        caller: &Caller,
        workspace: Option<&str>,
        before: Option<AuditId>,
        limit: usize,
    ) -> Result<Page<AuditEntry>> {
        let of = match workspace {
            None if caller.is_operator() => None,
            named => Some(self.workspace_of_keys(caller, named).await?),
        };
        self.store.audit_list(of, before, limit).await.map_err(store_failed)
    }

    /// Commits the entry of a request that asks for work on a whole workspace, which may find nothing to change.
    pub(crate) async fn write_down(&self, workspace: WorkspaceId) -> Result<()> {
        let Some((mut entry, pending)) = self.audit(&Changes::new()) else { return Ok(()) };
        entry.targets = vec![AuditTarget::new("workspace", workspace)];
        self.write_back(Changes::new().fact(entry)).await?;
        pending.kept();
        Ok(())
    }
}
