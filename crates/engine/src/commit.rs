//! Read → decide → commit, and again when somebody else came first.

use std::future::Future;
use std::time::Duration;

use stead_domain::changes::{Changes, Row, RowChange};
use stead_domain::ports::{BlobError, CommitError, StoreError};
use stead_domain::{Code, Error, Result};
use tokio::time::Instant;

use crate::engine::Engine;
use crate::hub::Topic;
use crate::request::PendingEntry;
use crate::tallies::Steps;

/// How often a decision is made anew before the caller is told that the store is too busy.
const ATTEMPTS: u32 = 30;

/// The store does not answer.
pub(crate) fn store_failed(error: StoreError) -> Error {
    let full = has_no_room(&error);
    let message =
        if full { "the server's store has no room left on the disk" } else { "the server's store does not answer" };
    Error::new(Code::BackendUnavailable, message).because(error)
}

/// Whether a disk is full, as the databases and the kernel say it.
fn has_no_room(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let said = error.to_string();
        if ["disk is full", "No space left on device"].iter().any(|words| said.contains(words)) {
            return true;
        }
        next = error.source();
    }
    false
}

/// Whether the store did not answer, so that the same may be tried again later. Of a commit nobody knows then whether it happened.
pub(crate) fn is_store_failure(error: &Error) -> bool {
    error.cause.as_deref().is_some_and(|cause| cause.downcast_ref::<StoreError>().is_some())
}

/// How long a disk that does not take what was written is tried again before work goes on without that.
pub(crate) const DISK: Duration = Duration::from_secs(30);

/// Growing pauses between attempts.
#[derive(Debug)]
pub(crate) struct Pauses(Duration);

impl Pauses {
    const SHORTEST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(5);

    pub(crate) fn new() -> Self {
        Self(Self::SHORTEST)
    }

    /// How long to wait before the next attempt.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(Self::LONGEST);
        pause
    }
}

/// The blob store does not answer, or what it keeps is no longer what was stored.
pub(crate) fn blobs_failed(error: BlobError) -> Error {
    if matches!(error, BlobError::Missing(_) | BlobError::Damaged(_)) {
        let message = "the file's contents are damaged or lost on the server; uploading the file again repairs it";
        return Error::new(Code::ContentsDamaged, message).because(error);
    }
    let full = has_no_room(&error);
    let message = if full {
        "the server's file store has no room left on the disk"
    } else {
        "the server's file store does not answer"
    };
    Error::new(Code::BackendUnavailable, message).because(error)
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
            metrics::counter!("stead_commit_retries_total", "table" => last).increment(1);
            tokio::time::sleep(Duration::from_millis(u64::from(attempt.min(10)))).await;
        }
        let message = format!("too many others are changing the same {last}; try again");
        Err(Error::new(Code::CapacityExhausted, message))
    }

    /// Repeats what the store does not answer, with growing pauses, until it does. A server that stops tries once more and
    /// leaves the rest to the next start. `work` has to decide anew each time, on what is there then.
    pub(crate) async fn patiently<T, F, D>(&self, work: F) -> Result<T>
    where
        F: FnMut() -> D,
        D: Future<Output = Result<T>>,
    {
        self.patiently_for(Duration::MAX, work).await
    }

    /// The same, but for so long only.
    pub(crate) async fn patiently_for<T, F, D>(&self, longest: Duration, mut work: F) -> Result<T>
    where
        F: FnMut() -> D,
        D: Future<Output = Result<T>>,
    {
        let (stopping, begun) = (self.supervisor.stopping(), Instant::now());
        let mut pauses = Pauses::new();
        loop {
            let last = stopping.is_cancelled() || begun.elapsed() > longest;
            match work().await {
                Err(error) if is_store_failure(&error) && !last => self.pause(&mut pauses, &error).await,
                outcome => return outcome,
            }
        }
    }

    /// Repeats what the server's disk does not take, until an instant.
    pub(crate) async fn while_hoping<T, D>(&self, until: Instant, mut work: impl FnMut() -> D) -> Result<T>
    where
        D: Future<Output = Result<T>>,
    {
        let stopping = self.supervisor.stopping();
        let mut pauses = Pauses::new();
        loop {
            match work().await {
                Err(error) if error.code == Code::BackendUnavailable => {
                    let pause = pauses.next();
                    if Instant::now() + pause > until || stopping.is_cancelled() {
                        return Err(error);
                    }
                    tracing::warn!(error = %error, cause = ?error.cause, "the disk takes nothing; it is tried again");
                    tokio::time::sleep(pause).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Waits before the store is asked again; not any more when the server stops.
    pub(crate) async fn pause(&self, pauses: &mut Pauses, error: &Error) {
        tracing::warn!(error = %error, cause = ?error.cause, "the store does not answer; it is asked again");
        tokio::select! {
            () = tokio::time::sleep(pauses.next()) => {}
            () = self.supervisor.stopping().cancelled_owned() => {}
        }
    }

    /// Commits once and wakes those who wait for what changed. What a request asked for bears an entry of the audit log.
    pub(crate) async fn commit(&self, mut changes: Changes) -> Result<(), CommitError> {
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
        let steps = Steps::of(&changes);
        let audited = self.audit(&changes).map(|(entry, pending)| {
            changes.facts.push(entry.into());
            pending
        });
        self.store.commit(changes).await?;
        audited.into_iter().for_each(PendingEntry::kept);
        steps.count();
        self.faults.point("commit.done");
        topics.dedup();
        topics.into_iter().for_each(|topic| self.hub.wake(topic));
        Ok(())
    }
}
