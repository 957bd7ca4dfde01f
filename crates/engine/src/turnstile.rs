//! Lets the writers of one thing through one at a time, in the order in which they came. The row's version is what keeps
//! writers apart, on any number of servers; the turnstile only spares those of this process from deciding in vain.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use stead_domain::ProjectId;
use tokio::sync::OwnedMutexGuard;

type Lock = Arc<tokio::sync::Mutex<()>>;

/// The locks that somebody holds or waits for.
#[derive(Debug, Default)]
pub(crate) struct Turnstile(Mutex<HashMap<ProjectId, Lock>>);

/// Held while a writer is at it.
pub(crate) struct Through<'a> {
    turnstile: &'a Turnstile,
    id: ProjectId,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turnstile {
    /// Waits for everyone who came before.
    pub(crate) async fn enter(&self, id: ProjectId) -> Through<'_> {
        let lock = self.locks().entry(id).or_default().clone();
        // Made before the wait, so that one who gives up waiting tidies up as well.
        let mut through = Through { turnstile: self, id, guard: None };
        through.guard = Some(lock.lock_owned().await);
        through
    }

    fn locks(&self) -> std::sync::MutexGuard<'_, HashMap<ProjectId, Lock>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Through<'_> {
    fn drop(&mut self) {
        let mut locks = self.turnstile.locks();
        self.guard = None;
        if locks.get(&self.id).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const WAIT: Duration = Duration::from_millis(5);

    #[tokio::test]
    async fn one_at_a_time_and_nothing_is_left() {
        let turnstile = Turnstile::default();
        let id: ProjectId = "henv_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00".parse().unwrap();
        let first = turnstile.enter(id).await;
        let mut second = Box::pin(turnstile.enter(id));
        assert!(tokio::time::timeout(WAIT, &mut second).await.is_err());
        let mut given_up = Box::pin(turnstile.enter(id));
        assert!(tokio::time::timeout(WAIT, &mut given_up).await.is_err());
        drop(given_up);
        drop(first);
        drop(second.await);
        assert!(turnstile.locks().is_empty());
    }
}
