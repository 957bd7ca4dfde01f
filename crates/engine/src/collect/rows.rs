//! Rows of what is over and that nobody can ask for any more: a few at a time, so that no commit holds up others for long.

use std::time::Duration;

use stead_domain::Result;
use stead_domain::changes::{Changes, Removal};
use stead_domain::ports::CommitError;

use crate::commit::store_failed;
use crate::engine::Engine;

/// How many rows go with one commit that names each.
const AT_ONCE: usize = 100;

/// How long an operation stays that has ended. Those who wait for one look several times in a second.
const OPERATIONS: Duration = Duration::from_hours(1);

impl Engine {
    /// Commits a removal until it finds no more. False when the server stops before that: the rest is for the next start.
    pub(crate) async fn remove_all(&self, removal: Removal) -> Result<bool> {
        let stopping = self.supervisor.stopping();
        while !stopping.is_cancelled() {
            match self.store.commit(Changes::new().remove(removal)).await {
                Ok(done) if done.removed < Removal::BATCH => return Ok(true),
                // Others may commit in between.
                Ok(_) => tokio::task::yield_now().await,
                Err(CommitError::Conflict(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(CommitError::Store(error)) => return Err(store_failed(error)),
            }
        }
        Ok(false)
    }

    /// Commits removals that concern a row each, some at a time.
    pub(crate) async fn remove_each(&self, removals: &[Removal]) -> Result<()> {
        for some in removals.chunks(AT_ONCE) {
            self.write_back(some.iter().copied().fold(Changes::new(), Changes::remove)).await?;
        }
        Ok(())
    }

    /// Removes the records of what has ended in every workspace: entries of the audit log that are old enough, operations, deleted
    /// agents that no session names, and what is left of deleted projects.
    pub(super) async fn collect_ended(&self) -> Result<()> {
        let (now, grace) = (self.now(), self.settings.collection.grace);
        self.remove_all(Removal::Audit(now.minus(self.settings.audit_keep))).await?;
        self.remove_all(Removal::Operations(now.minus(grace.min(OPERATIONS)))).await?;
        // A session that names the agent may be about to be opened by a request that has found it.
        self.remove_all(Removal::Agents(now.minus(grace))).await?;
        self.remove_deleted_projects().await
    }
}
