//! What all sandboxes share, and how much of it one group of them may take: descriptors of this process, and turns to ask the
//! resolver.
//!
//! The rule is one: nobody is given more than a third of what is then free. A group alone gets a quarter of all so, further greedy
//! groups get less and less, and something is left for the next one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stead_outbound::CONCURRENT_QUESTIONS;
use tokio::sync::Notify;

/// Descriptors of a connection that is a tunnel: the client, the host, and a pipe each way.
const CONNECTION: u64 = 6;
/// Descriptors of a sandbox while nobody connects.
const SOCKET: u64 = 1;
/// Descriptors that are nobody's: for orders and the sockets that come with them, for what the C library opens to resolve names,
/// for the machine's addresses, and for connections that are about to be turned away.
const RESERVE: u64 = 512;

/// What sandboxes share.
#[derive(Debug)]
pub(crate) struct Shares {
    descriptors: Arc<Purse>,
    questions: Arc<Purse>,
}

impl Shares {
    /// Of a process that may open so many descriptors and does nothing else with them; `None` leaves connections unbounded.
    pub(crate) fn new(descriptors: Option<u64>) -> Self {
        let shared = descriptors.map_or(u64::from(u32::MAX), |all| all - RESERVE.min(all / 4));
        Self { descriptors: Purse::of(shared), questions: Purse::of(CONCURRENT_QUESTIONS as u64) }
    }

    /// Notes an open socket. It is not refused, for it is the service that opens it.
    pub(crate) fn socket(&self) -> Holding {
        self.descriptors.take_for_all(SOCKET)
    }

    /// The part of one group.
    pub(crate) fn of_group(self: &Arc<Self>, group: &str) -> GroupShare {
        GroupShare { descriptors: self.descriptors.of_group(group), questions: self.questions.of_group(group) }
    }
}

/// One group's part of everything.
#[derive(Debug)]
pub(crate) struct GroupShare {
    descriptors: Part,
    questions: Part,
}

impl GroupShare {
    /// Room for one more connection, if the group may have it.
    pub(crate) fn connection(&self) -> Option<Holding> {
        self.descriptors.take(CONNECTION)
    }

    /// A turn to ask the resolver; waits for one, in the order of asking.
    pub(crate) async fn question(&self) -> Holding {
        self.questions.wait_for(1).await
    }
}

/// A bounded good.
#[derive(Debug)]
struct Purse {
    all: u64,
    held: Mutex<Held>,
    /// Told whenever something is given back.
    returned: Notify,
}

#[derive(Debug, Default)]
struct Held {
    total: u64,
    groups: HashMap<Arc<str>, Group>,
}

/// One that has a [`Part`] or a [`Holding`].
#[derive(Debug, Default)]
struct Group {
    amount: u64,
    parts: usize,
    /// Who has it is the next of the group to be given something.
    queue: Arc<tokio::sync::Mutex<()>>,
}

impl Purse {
    fn of(all: u64) -> Arc<Self> {
        Arc::new(Self { all, held: Mutex::default(), returned: Notify::new() })
    }

    fn take_for_all(self: &Arc<Self>, amount: u64) -> Holding {
        self.held().total += amount;
        Holding { purse: Arc::clone(self), group: None, amount }
    }

    fn of_group(self: &Arc<Self>, group: &str) -> Part {
        let mut held = self.held();
        let name = held.groups.get_key_value(group).map_or_else(|| Arc::from(group), |(name, _)| Arc::clone(name));
        let group = held.groups.entry(Arc::clone(&name)).or_default();
        group.parts += 1;
        Part { purse: Arc::clone(self), name, queue: Arc::clone(&group.queue) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn forget_unused(&mut self, name: &str) {
        if self.groups.get(name).is_some_and(|group| group.parts == 0 && group.amount == 0) {
            self.groups.remove(name);
        }
    }
}

/// One group's part of a purse.
#[derive(Debug)]
struct Part {
    purse: Arc<Purse>,
    name: Arc<str>,
    queue: Arc<tokio::sync::Mutex<()>>,
}

impl Part {
    fn take(&self, amount: u64) -> Option<Holding> {
        let mut held = self.purse.held();
        let free = self.purse.all.checked_sub(held.total + amount)?;
        let group = held.groups.entry(Arc::clone(&self.name)).or_default();
        if 3 * (group.amount + amount) > free {
            return None;
        }
        group.amount += amount;
        held.total += amount;
        Some(Holding { purse: Arc::clone(&self.purse), group: Some(Arc::clone(&self.name)), amount })
    }

    async fn wait_for(&self, amount: u64) -> Holding {
        let _next = self.queue.lock().await;
        loop {
            let returned = self.purse.returned.notified();
            if let Some(holding) = self.take(amount) {
                return holding;
            }
            returned.await;
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut held = self.purse.held();
        if let Some(group) = held.groups.get_mut(&self.name) {
            group.parts -= 1;
        }
        held.forget_unused(&self.name);
    }
}

/// Something that was taken. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Holding {
    purse: Arc<Purse>,
    group: Option<Arc<str>>,
    amount: u64,
}

impl Drop for Holding {
    fn drop(&mut self) {
        let mut held = self.purse.held();
        held.total -= self.amount;
        if let Some(name) = &self.group {
            if let Some(group) = held.groups.get_mut(name) {
                group.amount -= self.amount;
            }
            held.forget_unused(name);
        }
        drop(held);
        self.purse.returned.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    fn all_of(part: &Part) -> Vec<Holding> {
        std::iter::from_fn(|| part.take(1)).collect()
    }

    #[test]
    fn one_group_gets_a_quarter_and_there_is_something_for_the_next() {
        let purse = Purse::of(128);
        let parts: Vec<Part> = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| purse.of_group(name)).into();
        let mut taken: Vec<Vec<Holding>> = parts.iter().map(all_of).collect();
        let counts: Vec<usize> = taken.iter().map(Vec::len).collect();
        assert_eq!(counts[0], 32);
        assert!(counts.iter().all(|count| *count >= 4), "{counts:?}");
        assert!(purse.of_group("a").take(1).is_none(), "another socket of the same group");
        taken.remove(0);
        assert_eq!(purse.held().total, counts[1..].iter().sum::<usize>() as u64);
        assert!(parts[7].take(1).is_some(), "what is given back is there for all");
        drop((parts, taken));
        assert!(purse.held().groups.is_empty() && purse.held().total == 0);
    }

    #[test]
    fn a_socket_of_the_service_is_always_noted() {
        let shares = Arc::new(Shares::new(Some(4)));
        let sockets: Vec<Holding> = (0..10).map(|_| shares.socket()).collect();
        assert!(shares.of_group("a").connection().is_none());
        drop(sockets);
        assert_eq!(shares.descriptors.held().total, 0);
    }

    #[tokio::test]
    async fn whoever_waits_is_served_in_turn_and_not_before_his_group_gives_back() {
        let purse = Purse::of(4);
        let (greedy, modest) = (purse.of_group("a"), purse.of_group("b"));
        let first = greedy.take(1).unwrap();
        let mut second = std::pin::pin!(greedy.wait_for(1));
        let waited = timeout(Duration::from_millis(20), &mut second).await;
        assert!(waited.is_err() && modest.take(1).is_none());
        drop(first);
        let second = timeout(Duration::from_secs(5), second).await.unwrap();
        drop(second);
        assert!(modest.take(1).is_some());
    }
}
