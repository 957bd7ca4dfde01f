//! The audit log read and shortened. Its entries are written by `request`, with the commits they tell of.
//!
//! What was refused is not in it: it tells of changes, each with the commit that made it, and is as large as what was done. Who is
//! refused changes nothing; entries for it would need commits of their own, and anybody without a key could fill the log with them.
//! Refusals are counted and logged.

use std::collections::BTreeMap;
use std::time::Duration;

use stead_domain::audit::{AuditEntry, AuditFilter, AuditTarget};
use stead_domain::changes::Changes;
use stead_domain::key::Caller;
use stead_domain::{AuditId, KeyId, Result, WorkspaceId};

use crate::commit::store_failed;
use crate::engine::Engine;

/// How many entries are looked at in one go where not all of them fit.
const CHUNK: usize = 1000;
/// How many goes one answer may take; what it has not come to is for the next page.
const GOES: usize = 20;
/// By how much entries may be out of order in time: their ids and their moments are taken one after the other.
const SLACK: Duration = Duration::from_mins(1);

/// Which part of the audit log is asked for.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// A workspace, by id or name; all that the caller sees when absent.
    pub workspace: Option<String>,
    /// A key, by id or name.
    pub key: Option<String>,
    /// What else has to fit; its keys are those of `key`, where that is said.
    pub filter: AuditFilter,
    /// Only entries that are older than this one.
    pub before: Option<AuditId>,
    /// How many at most.
    pub limit: usize,
}

/// A part of the audit log.
#[derive(Debug, Clone)]
pub struct AuditPart {
    /// The newest first, each with the name of its key where the caller may know it.
    pub entries: Vec<(AuditEntry, Option<String>)>,
    /// Where the next part begins. It may hold nothing, and this one less than was asked for.
    pub next: Option<AuditId>,
}

impl Engine {
    /// Who did what, newest first: in the caller's workspace, and for an operator in the one named by its id or name, or in all.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn audit_list(&self, caller: &Caller, query: AuditQuery) -> Result<AuditPart> {
        let of = match query.workspace.as_deref() {
            None if caller.is_operator() => None,
            named => Some(self.workspace_of_keys(caller, named).await?),
        };
        let names = self.names_of_keys(caller, of).await?;
        let mut filter = query.filter;
        if let Some(wanted) = &query.key {
            let called = names.iter().filter(|(id, name)| **name == *wanted || id.to_string() == *wanted);
            filter.keys = Some(called.map(|(id, _)| *id).chain(wanted.parse()).collect());
        }
        let (found, next) = self.audit_part(of, &filter, query.before, query.limit).await?;
        let named = |entry: AuditEntry| {
            let name = names.get(&entry.key_id).cloned();
            (entry, name)
        };
        Ok(AuditPart { entries: found.into_iter().map(named).collect(), next })
    }

    async fn audit_part(
        &self,
        of: Option<WorkspaceId>,
        filter: &AuditFilter,
        mut before: Option<AuditId>,
        limit: usize,
    ) -> Result<(Vec<AuditEntry>, Option<AuditId>)> {
        let chunk = if filter.is_empty() { limit } else { CHUNK };
        let mut found: Vec<AuditEntry> = Vec::new();
        for _ in 0..GOES {
            let page = self.store.audit_list(of, before, chunk).await.map_err(store_failed)?;
            for entry in page.rows {
                if filter.since.is_some_and(|since| entry.at.plus(SLACK) < since) {
                    return Ok((found, None));
                }
                before = Some(entry.id);
                if !filter.fits(&entry) {
                    continue;
                }
                if found.len() == limit {
                    let next = found.last().map(|last| last.id);
                    return Ok((found, next));
                }
                found.push(entry);
            }
            if !page.more {
                return Ok((found, None));
            }
            if found.len() == limit {
                break;
            }
        }
        Ok((found, before))
    }

    /// The names of the keys that the caller may know: its own workspace's, and an operator's those of the one asked for, or of all.
    async fn names_of_keys(&self, caller: &Caller, of: Option<WorkspaceId>) -> Result<BTreeMap<KeyId, String>> {
        let mut workspaces = vec![caller.workspace_id];
        match of {
            Some(of) if of != caller.workspace_id => workspaces.push(of),
            Some(_) => {}
            None => {
                let all = self.store.workspaces_list().await.map_err(store_failed)?;
                workspaces = all.into_iter().map(|workspace| workspace.id).collect();
            }
        }
        let mut names = BTreeMap::new();
        for workspace in workspaces {
            let keys = self.store.keys_list(workspace).await.map_err(store_failed)?;
            names.extend(keys.into_iter().map(|key| (key.id, key.name)));
        }
        Ok(names)
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
