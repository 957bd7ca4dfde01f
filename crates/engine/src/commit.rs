//! Read → decide → commit, and again when somebody else came first.

use std::future::Future;
use std::time::Duration;

use stead_domain::changes::{Changes, Row, RowChange};
use stead_domain::ports::{BlobError, CommitError, StoreError};
use stead_domain::{Code, Error, Result};

use crate::engine::Engine;
use crate::hub::Topic;

/// How often a decision is made anew before the caller is told that the store is too busy.
const ATTEMPTS: u32 = 30;

/// The store does not answer.
pub(crate) fn store_failed(error: StoreError) -> Error {
    Error::new(Code::BackendUnavailable, "the server's store does not answer").because(error)
}

/// The blob store does not answer, or what it keeps is no longer what was stored.
pub(crate) fn blobs_failed(error: BlobError) -> Error {
    if matches!(error, BlobError::Missing(_) | BlobError::Damaged(_)) {
        let message = "the file's contents are damaged or lost on the server; uploading the file again repairs it";
        return Error::new(Code::ContentsDamaged, message).because(error);
    }
    Error::new(Code::BackendUnavailable, "the server's file store does not answer").because(error)
}

impl Engine {
    /// Commits what `decide` returns; on a conflict it decides again on what is there now. The value is what the decision
    /// that was committed returned beside its changes.
    pub(crate) async fn decide<T, F, D>(&self, mut decide: F) -> Result<T>
    where
        F: FnMut() -> D,
        D: Future<Output = Result<(Changes, T)>>,
    {
        let mut last = "";
        for attempt in 0..ATTEMPTS {
            let (changes, value) = decide().await?;
            match self.commit(changes).await {
                Ok(()) => return Ok(value),
                Err(CommitError::Conflict(what)) => last = what,
                Err(CommitError::Store(error)) => return Err(store_failed(error)),
            }
            tokio::time::sleep(Duration::from_millis(u64::from(attempt.min(10)))).await;
        }
        let message = format!("too many others are changing the same {last}; try again");
        Err(Error::new(Code::CapacityExhausted, message))
    }

    /// Commits once and wakes those who wait for what changed.
    pub(crate) async fn commit(&self, changes: Changes) -> Result<(), CommitError> {
        let mut topics: Vec<Topic> = changes.sessions().into_iter().map(Topic::Session).collect();
        topics.extend(changes.rows.iter().filter_map(|change| match change {
            RowChange::Insert(Row::Build(build)) | RowChange::Update(Row::Build(build)) => {
                Some(Topic::Project(build.project_id))
            }
            _ => None,
        }));
        if changes == Changes::default() {
            return Ok(());
        }
        self.faults.point("commit.begun");
        self.store.commit(changes).await?;
        self.faults.point("commit.done");
        topics.dedup();
        topics.into_iter().for_each(|topic| self.hub.wake(topic));
        Ok(())
    }
}
