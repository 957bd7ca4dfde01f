//! Who is next where few may be at work at once: builds, imports from git. Slots are shared fairly between workspaces: a free one
//! goes to the workspace that has the fewest in use, of those to the one that was served longest ago, and within a workspace to
//! who has waited longest. A workspace that asks for a hundred therefore delays another's first one by at most what is at work
//! already, and by nothing where one workspace may not have all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use stead_domain::WorkspaceId;
use tokio::sync::oneshot;

/// The queue. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct FairQueue(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    /// The most that one workspace may have.
    each: usize,
    /// In the order of their coming.
    waiting: Vec<(WorkspaceId, oneshot::Sender<Slot>)>,
    running: HashMap<WorkspaceId, usize>,
    /// When each workspace was last given a slot, by a counter.
    served: HashMap<WorkspaceId, u64>,
    count: u64,
}

/// Held while at work; dropping it lets the next one in.
#[derive(Debug)]
pub(crate) struct Slot {
    queue: FairQueue,
    workspace: WorkspaceId,
}

impl FairQueue {
    /// All slots are for whoever asks.
    pub(crate) fn new(slots: usize) -> Self {
        Self::with_each(slots, slots)
    }

    /// No workspace has more than `each` of the slots.
    pub(crate) fn with_each(slots: usize, each: usize) -> Self {
        let state = State {
            free: slots.max(1),
            each: each.max(1),
            waiting: Vec::new(),
            running: HashMap::new(),
            served: HashMap::new(),
            count: 0,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Waits for a slot. A caller that gives up leaves the queue by dropping the future.
    pub(crate) async fn slot(&self, workspace: WorkspaceId) -> Slot {
        loop {
            let (sender, receiver) = oneshot::channel();
            self.with(|state| state.waiting.push((workspace, sender)));
            self.serve();
            // A sender is dropped unsent by nobody but a thread that panicked: then the caller stands in line again.
            if let Ok(slot) = receiver.await {
                return slot;
            }
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands out what is free. A slot whose taker has left comes back by being dropped, outside of the lock.
    fn serve(&self) {
        while let Some((workspace, sender)) = self.with(State::next) {
            drop(sender.send(Slot { queue: self.clone(), workspace }));
        }
    }
}

impl State {
    /// Takes the one who is next out of the queue, and a slot with it.
    fn next(&mut self) -> Option<(WorkspaceId, oneshot::Sender<Slot>)> {
        self.waiting.retain(|(_, sender)| !sender.is_closed());
        if self.free == 0 {
            return None;
        }
        let rank = |workspace: &WorkspaceId| {
            let running = self.running.get(workspace).copied().unwrap_or(0);
            (running, self.served.get(workspace).copied().unwrap_or(0))
        };
        let served = (0..self.waiting.len()).filter(|at| rank(&self.waiting[*at].0).0 < self.each);
        // Of equals the first, so that those of one workspace keep their order.
        let at = served.min_by_key(|at| rank(&self.waiting[*at].0))?;
        let taken = self.waiting.remove(at);
        self.free -= 1;
        self.count += 1;
        *self.running.entry(taken.0).or_insert(0) += 1;
        self.served.insert(taken.0, self.count);
        Some(taken)
    }

    fn give_back(&mut self, workspace: WorkspaceId) {
        self.free += 1;
        if let Some(running) = self.running.get_mut(&workspace) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&workspace);
            }
        }
        if self.waiting.is_empty() && self.running.is_empty() {
            // Nobody is there who could be treated unfairly.
            self.served.clear();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.queue.with(|state| state.give_back(self.workspace));
        self.queue.serve();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use stead_domain::ports::IdSource;
    use stead_testkit::SeededIds;

    use super::*;

    fn workspaces() -> [WorkspaceId; 3] {
        let ids = SeededIds::new(1);
        [0; 3].map(|_| WorkspaceId::from_uuid(ids.uuid_v7()))
    }

    #[tokio::test]
    async fn one_workspace_with_many_builds_does_not_keep_another_waiting() {
        let [many, few, third] = workspaces();
        let queue = FairQueue::new(2);
        let order = Arc::new(Mutex::new(Vec::new()));
        let first = queue.slot(many).await;
        let second = queue.slot(many).await;
        let mut tasks = Vec::new();
        for (name, workspace) in [("a", many), ("b", many), ("c", few), ("d", few), ("e", third)] {
            let (queue, order) = (queue.clone(), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let slot = queue.slot(workspace).await;
                order.lock().unwrap().push(name);
                tokio::task::yield_now().await;
                drop(slot);
            }));
            // In line before the next one comes.
            tokio::task::yield_now().await;
        }
        assert!(order.lock().unwrap().is_empty());
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        drop(second);
        assert_eq!(*order.lock().unwrap(), ["c", "e", "d", "a", "b"]);
    }

    #[tokio::test]
    async fn no_workspace_has_them_all_where_that_is_not_allowed() {
        let [many, few, _] = workspaces();
        let queue = FairQueue::with_each(4, 2);
        let held = [queue.slot(many).await, queue.slot(many).await];
        let mut third = Box::pin(queue.slot(many));
        assert!(third.as_mut().now_or_never().is_none());
        assert!(queue.slot(few).now_or_never().is_some());
        drop(held);
        assert!(third.now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_leaves_the_queue_loses_nobody_a_slot() {
        let [one, two, _] = workspaces();
        let queue = FairQueue::new(1);
        let held = queue.slot(one).await;
        let mut left = Box::pin(queue.slot(two));
        assert!(left.as_mut().now_or_never().is_none());
        let mut stays = Box::pin(queue.slot(one));
        assert!(stays.as_mut().now_or_never().is_none());
        drop(left);
        drop(held);
        let slot = stays.now_or_never().expect("the slot is free");
        // Given to somebody who never looks: it must come back.
        let mut given = Box::pin(queue.slot(two));
        assert!(given.as_mut().now_or_never().is_none());
        drop(slot);
        drop(given);
        assert!(queue.slot(one).now_or_never().is_some());
    }
}
