//! Wakes those who wait for something to change. A wake-up is a hint: whoever wakes reads the store, and whoever misses one
//! polls a little later, so a lost hint costs time and nothing else.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
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

/// The waiting, by topic.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    topics: Mutex<HashMap<Topic, watch::Sender<u64>>>,
}

/// One waiter. It hears of everything that happens after it was made.
pub(crate) struct Waiter(watch::Receiver<u64>);

impl Waiter {
    /// Returns at the next hint, or after a while.
    pub(crate) async fn wait(&mut self) {
        let _ = tokio::time::timeout(POLL, self.0.changed()).await;
    }
}

impl Hub {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Topic, watch::Sender<u64>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to listen; read the store after this, never before.
    pub(crate) fn listen(&self, topic: Topic) -> Waiter {
        let mut topics = self.lock();
        Waiter(topics.entry(topic).or_insert_with(|| watch::channel(0).0).subscribe())
    }

    /// Whether anybody listens.
    pub(crate) fn is_heard(&self, topic: Topic) -> bool {
        self.lock().get(&topic).is_some_and(|sender| sender.receiver_count() > 0)
    }

    /// Tells everyone who listens.
    pub(crate) fn wake(&self, topic: Topic) {
        let mut topics = self.lock();
        if let Some(sender) = topics.get(&topic) {
            if sender.receiver_count() == 0 {
                topics.remove(&topic);
            } else {
                sender.send_modify(|count| *count += 1);
            }
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
        drop(waiter);
        hub.wake(Topic::Session(id));
        assert!(hub.lock().is_empty());
    }
}
