//! The room for bodies in memory, shared fairly by those who send them. Nobody has more than half of it unless by a single body,
//! and while others wait, whoever has less comes first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stead_domain::KeyId;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The room, counted in units of the caller's. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    size: usize,
    free: usize,
    /// The most that several bodies of one key have.
    share: usize,
    held: HashMap<Option<KeyId>, usize>,
    /// In the order of their coming.
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    who: Option<KeyId>,
    /// What the body has.
    has: usize,
    more: usize,
    answer: oneshot::Sender<Part>,
}

/// A part of the room, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Part {
    room: Room,
    who: Option<KeyId>,
    size: usize,
}

impl Room {
    pub(crate) fn new(size: usize) -> Self {
        let state = State { size, free: size, share: size / 2, held: HashMap::new(), waiting: Vec::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// So much more for a body of this key that `has` a part already. None when it does not come until then.
    pub(crate) async fn more(&self, who: Option<KeyId>, has: usize, more: usize, until: Instant) -> Option<Part> {
        let (answer, part) = oneshot::channel();
        {
            let mut state = self.lock();
            if has + more > state.size {
                return None;
            }
            state.waiting.push(Waiting { who, has, more, answer });
        }
        self.serve();
        // Whoever leaves lets others pass that waited behind him.
        let part = tokio::time::timeout_at(until, part).await;
        let Ok(Ok(part)) = part else {
            self.serve();
            return None;
        };
        Some(part)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands out what there is. A part whose taker has left comes back by being dropped, outside of the lock.
    fn serve(&self) {
        loop {
            let Some(next) = self.lock().next() else { return };
            let part = Part { room: self.clone(), who: next.who, size: next.more };
            drop(next.answer.send(part));
        }
    }
}

impl State {
    /// Takes the one who is next out of the line, and the room with it.
    fn next(&mut self) -> Option<Waiting> {
        self.waiting.retain(|waiting| !waiting.answer.is_closed());
        let held = |who| self.held.get(who).copied().unwrap_or(0);
        let mut order: Vec<usize> = (0..self.waiting.len()).collect();
        order.sort_by_key(|at| held(&self.waiting[*at].who));
        let mut kept_free = false;
        for at in order {
            let Waiting { who, has, more, .. } = &self.waiting[at];
            let held = held(who);
            if held > *has && held + more > self.share {
                continue;
            }
            if *more > self.free {
                // Room is kept together for this one, but not from those who ask for little and have little.
                kept_free = true;
            } else if !kept_free || held + more <= self.share / 2 {
                let taken = self.waiting.remove(at);
                self.free -= taken.more;
                *self.held.entry(taken.who).or_default() += taken.more;
                return Some(taken);
            }
        }
        None
    }
}

impl Part {
    /// How much it is.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Puts a further part of the same body to it.
    pub(crate) fn join(&mut self, mut other: Self) {
        self.size += std::mem::take(&mut other.size);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.size == 0 {
            return;
        }
        let mut state = self.room.lock();
        state.free += self.size;
        if let Some(held) = state.held.get_mut(&self.who) {
            *held -= self.size;
            if *held == 0 {
                state.held.remove(&self.who);
            }
        }
        drop(state);
        self.room.serve();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(last: char) -> KeyId {
        format!("key_018f3c2a7b4c7d3e9f6a5b4c3d2e1f0{last}").parse().unwrap()
    }

    async fn at_once(room: &Room, who: Option<KeyId>, more: usize) -> Option<Part> {
        room.more(who, 0, more, Instant::now() + Duration::from_millis(20)).await
    }

    #[tokio::test]
    async fn one_key_has_half_at_most_and_another_finds_the_rest() {
        let room = Room::new(8);
        let (hog, other) = (Some(key('0')), Some(key('1')));
        let mut had = Vec::new();
        for _ in 0..8 {
            had.extend(at_once(&room, hog, 1).await);
        }
        assert_eq!(had.len(), 4, "several bodies of one key have more than half");
        let _two = at_once(&room, other, 3).await.unwrap();
        assert!(at_once(&room, hog, 1).await.is_none());
        had.clear();
        // A single body may be larger than that, and then it is the only one.
        let large = at_once(&room, hog, 5).await.unwrap();
        assert!(at_once(&room, hog, 1).await.is_none());
        drop(large);
        assert_eq!(at_once(&room, hog, 1).await.map(|part| part.size()), Some(1));
    }

    #[tokio::test]
    async fn who_has_less_comes_first_and_who_asks_for_little_passes() {
        let room = Room::new(8);
        let (hog, large, small) = (Some(key('0')), Some(key('1')), Some(key('2')));
        let until = Instant::now() + Duration::from_secs(5);
        let first = at_once(&room, hog, 4).await.unwrap();
        let wait = |who, more| {
            let room = room.clone();
            tokio::spawn(async move { room.more(who, 0, more, until).await })
        };
        let waiting = wait(large, 6);
        tokio::task::yield_now().await;
        // It came before, but holds up nobody who has little.
        let passing = at_once(&room, small, 2).await.unwrap();
        assert!(at_once(&room, small, 1).await.is_none(), "room is kept together for the large one");
        drop(first);
        let taken = waiting.await.unwrap().unwrap();
        assert_eq!((taken.size(), room.lock().free), (6, 0));
        let (of_large, of_other) = (wait(large, 1), wait(hog, 1));
        tokio::task::yield_now().await;
        drop(passing);
        assert!(of_other.await.unwrap().is_some());
        of_large.abort();
        drop(taken);
        assert!(of_large.await.is_err());
        assert!(at_once(&room, small, 8).await.is_some(), "a part that nobody took is lost");
        assert!(room.lock().held.is_empty());
    }
}
