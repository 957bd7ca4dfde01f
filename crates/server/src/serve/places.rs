//! The places of connections: so many, and no more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::line::Exchange;

/// All places.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    taken: Arc<Mutex<Taken>>,
}

/// Those that are taken, by when they were: the oldest first.
#[derive(Debug, Default)]
struct Taken {
    next: u64,
    by: BTreeMap<u64, Holder>,
}

#[derive(Debug)]
struct Holder {
    exchange: Arc<Exchange>,
    wanted: CancellationToken,
}

/// One connection's place, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    exchange: Arc<Exchange>,
    wanted: CancellationToken,
    taken: Arc<Mutex<Taken>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), taken: Arc::default() }
    }

    /// Whether there is none left.
    pub(super) fn are_taken(&self) -> bool {
        self.free.available_permits() == 0
    }

    /// Takes one. Where there is none, the oldest connection without a request is asked for its own; where each has a request, one
    /// that ends is waited for.
    pub(super) async fn take(&self) -> Place {
        let permit = match Arc::clone(&self.free).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => {
                self.make_room();
                // The semaphore is never closed.
                Arc::clone(&self.free).acquire_owned().await.ok()
            }
        };
        let (exchange, wanted) = (Arc::new(Exchange::default()), CancellationToken::new());
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let number = taken.next;
        taken.next += 1;
        taken.by.insert(number, Holder { exchange: Arc::clone(&exchange), wanted: wanted.clone() });
        Place { number, exchange, wanted, taken: Arc::clone(&self.taken), _permit: permit }
    }

    fn make_room(&self) {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = taken.by.values().find(|holder| holder.exchange.is_idle() && !holder.wanted.is_cancelled());
        if let Some(silent) = silent {
            silent.wanted.cancel();
        }
    }
}

impl Place {
    /// Whether the connection has a request.
    pub(super) fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }

    /// Returns when another connection needs the place. A request that has begun meanwhile is lost with its connection, as on any
    /// connection that is closed while it is idle: its client asks again.
    pub(super) async fn wanted(&self) {
        self.wanted.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).by.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_that_says_nothing_makes_room_and_who_has_a_request_stays() {
        let places = Places::new(3);
        let (first, second, third) = (places.take().await, places.take().await, places.take().await);
        let answering = first.exchange().begin();
        assert!(places.are_taken());
        let fourth = tokio::join!(places.take(), async {
            second.wanted().await;
            drop(second);
        })
        .0;
        assert!(!first.wanted.is_cancelled() && !third.wanted.is_cancelled());
        let busy = [third.exchange().begin(), fourth.exchange().begin()];
        let waits = tokio::time::timeout(std::time::Duration::from_millis(50), places.take()).await;
        assert!(waits.is_err(), "each has a request");
        assert!([&first, &third, &fourth].iter().all(|place| !place.wanted.is_cancelled()));
        drop((answering, busy, first));
        assert!(!places.are_taken());
        places.take().await;
    }
}
