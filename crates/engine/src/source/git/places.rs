//! How many imports from git run at once, and the end of all of them when the server stops.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use stead_domain::{Code, Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How long an import waits for a place.
const PATIENCE: Duration = Duration::from_secs(30);

/// The places of imports. One is free again when nothing is left of the import that had it.
#[derive(Debug)]
pub(crate) struct ImportPlaces {
    free: Arc<Semaphore>,
    count: u32,
    patience: Duration,
    closing: CancellationToken,
}

impl ImportPlaces {
    pub(crate) fn new(count: usize) -> Self {
        let count = u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        let (free, closing) = (Arc::new(Semaphore::new(count as usize)), CancellationToken::new());
        Self { free, count, patience: PATIENCE, closing }
    }

    /// Waits for a place.
    pub(super) async fn enter(&self) -> Result<OwnedSemaphorePermit> {
        let busy = || Error::new(Code::BackendUnavailable, "too many imports from git at once; try again later");
        match tokio::time::timeout(self.patience, self.free.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) => Err(stopping()),
            Err(_) => Err(busy()),
        }
    }

    /// Does the work of an import, or gives it up because the server stops.
    pub(super) async fn unless_closing<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            () = self.closing.cancelled() => Err(stopping()),
        }
    }

    /// Gives up every import and returns when nothing is left of them; begins none from now on.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        // An error means that they are closed already.
        let _ = self.free.acquire_many(self.count).await.map(|_| self.free.close());
    }
}

fn stopping() -> Error {
    Error::new(Code::BackendUnavailable, "the server is stopping")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_finds_no_place_is_refused_and_a_stop_waits_for_the_others() {
        let places = Arc::new(ImportPlaces { patience: Duration::from_millis(20), ..ImportPlaces::new(1) });
        let held = places.enter().await.unwrap();
        assert_eq!(places.enter().await.unwrap_err().code, Code::BackendUnavailable);
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
        assert_eq!(places.enter().await.unwrap_err().message, "the server is stopping");
    }
}
