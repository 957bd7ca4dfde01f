//! Wakes those who wait for something to change. A wake-up is a hint: whoever wakes reads the store, and whoever misses one
//! polls a little later, so a lost hint costs time and nothing else.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stead_domain::ids::{ProjectId, SessionId};
use tokio::sync::watch;

/// How long a waiter trusts the hints before it looks again by itself.
pub(crate) const POLL: Duration = Duration::from_secs(1);

/// What can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// Anything about a session.
    Session(SessionId),
    /// Anything about a project's builds.
    Project(ProjectId),
}

/// The waiting, by topic: those alone that somebody waits for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hub(Arc<Mutex<HashMap<Topic, watch::Sender<u64>>>>);

/// One waiter. It hears of everything that happens after it was made.
pub(crate) struct Waiter {
    hub: Hub,
    topic: Topic,
    hints: watch::Receiver<u64>,
}

impl Waiter {
    /// Returns at the next hint, or after a while.
    pub(crate) async fn wait(&mut self) {
        let _ = tokio::time::timeout(POLL, self.hints.changed()).await;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut topics = self.hub.lock();
        // This one is still counted.
        if topics.get(&self.topic).is_some_and(|sender| sender.receiver_count() <= 1) {
            topics.remove(&self.topic);
        }
    }
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, watch::Sender<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to listen; read the store after this, never before.
    pub(crate) fn listen(&self, topic: Topic) -> Waiter {
        let hints = self.lock().entry(topic).or_insert_with(|| watch::channel(0).0).subscribe();
        Waiter { hub: self.clone(), topic, hints }
    }

    /// Whether anybody listens.
    pub(crate) fn is_heard(&self, topic: Topic) -> bool {
        self.lock().contains_key(&topic)
    }

    /// Tells everyone who listens.
    pub(crate) fn wake(&self, topic: Topic) {
        if let Some(sender) = self.lock().get(&topic) {
            sender.send_modify(|count| *count += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hint_wakes_and_a_missing_hint_only_delays() {
        let hub = Hub::default();
        let id: SessionId = "hsess_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00".parse().unwrap();
        let mut waiter = hub.listen(Topic::Session(id));
        hub.wake(Topic::Session(id));
        let before = tokio::time::Instant::now();
        waiter.wait().await;
        assert!(before.elapsed() < POLL);
        waiter.wait().await;
        assert!(before.elapsed() >= POLL);
        let other = hub.listen(Topic::Session(id));
        drop(waiter);
        assert!(hub.is_heard(Topic::Session(id)));
        drop(other);
        assert!(!hub.is_heard(Topic::Session(id)) && hub.lock().is_empty());
    }
}
