//! How many imports from git run at once, fairly between workspaces, and the end of all of them when the server stops.

use std::future::Future;
use std::time::Duration;

use stead_domain::{Code, Error, Result, WorkspaceId};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::fair_queue::{FairQueue, Slot};

/// How long an import waits for a place: longer than it takes to give up a host that says nothing.
const PATIENCE: Duration = Duration::from_mins(1);

/// The places of imports. One is free again when nothing is left of the import that had it.
#[derive(Debug)]
pub(crate) struct ImportPlaces {
    queue: FairQueue,
    taken: TaskTracker,
    patience: Duration,
    closing: CancellationToken,
}

/// A place, held until nothing is left of the import.
#[derive(Debug)]
pub(super) struct Place {
    _slot: Slot,
    _taken: TaskTrackerToken,
}

impl ImportPlaces {
    /// One workspace may have all but a quarter of them, and at least one: slow hosts of one caller leave room for another's.
    pub(crate) fn new(count: usize) -> Self {
        let queue = FairQueue::with_each(count, count - count.div_ceil(4));
        Self { queue, taken: TaskTracker::new(), patience: PATIENCE, closing: CancellationToken::new() }
    }

    /// Waits for a place.
    pub(super) async fn enter(&self, workspace: WorkspaceId) -> Result<Place> {
        let busy = || Error::new(Code::BackendUnavailable, "too many imports from git at once; try again later");
        // Taken before the look at the end, so that an end either is seen here or waits for this.
        let taken = self.taken.token();
        let slot = self.unless_closing(async {
            tokio::time::timeout(self.patience, self.queue.slot(workspace)).await.map_err(|_| busy())
        });
        Ok(Place { _slot: slot.await?, _taken: taken })
    }

    /// Does the work of an import, or gives it up because the server stops.
    pub(super) async fn unless_closing<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => Err(stopping()),
            done = work => done,
        }
    }

    /// Gives up every import and returns when nothing is left of them; begins none from now on.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.taken.close();
        self.taken.wait().await;
    }
}

fn stopping() -> Error {
    Error::new(Code::BackendUnavailable, "the server is stopping")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stead_domain::ports::IdSource as _;
    use stead_testkit::SeededIds;

    use super::*;

    #[tokio::test]
    async fn a_workspace_with_slow_hosts_leaves_a_place_to_another() {
        let ids = SeededIds::new(1);
        let [slow, other] = [0; 2].map(|_| WorkspaceId::from_uuid(ids.uuid_v7()));
        let places = ImportPlaces { patience: Duration::from_millis(20), ..ImportPlaces::new(4) };
        let mut held = Vec::new();
        while let Ok(place) = places.enter(slow).await {
            held.push(place);
        }
        assert_eq!(held.len(), 3);
        held.push(places.enter(other).await.unwrap());
    }

    #[tokio::test]
    async fn who_finds_no_place_is_refused_and_a_stop_waits_for_the_others() {
        let places = Arc::new(ImportPlaces { patience: Duration::from_millis(20), ..ImportPlaces::new(1) });
        let workspace = WorkspaceId::from_uuid(SeededIds::new(1).uuid_v7());
        let held = places.enter(workspace).await.unwrap();
        assert_eq!(places.enter(workspace).await.unwrap_err().code, Code::BackendUnavailable);
        let closing = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.close().await }
        });
        // What is at work is told, and its place is waited for.
        let given_up = places.unless_closing(std::future::pending::<Result<()>>()).await;
        assert_eq!(given_up.unwrap_err().message, "the server is stopping");
        assert!(!closing.is_finished());
        drop(held);
        closing.await.unwrap();
        assert_eq!(places.enter(workspace).await.unwrap_err().message, "the server is stopping");
    }
}
