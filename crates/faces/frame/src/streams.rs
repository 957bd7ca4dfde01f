//! How many answers may go on for as long as what they tell of: each holds a connection and what waits to be sent on it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use stead_domain::KeyId;

/// Live answers of one key at once.
const OF_ONE_KEY: usize = 128;
/// Live answers of the server at once.
const OF_ALL: usize = 1024;

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_key: HashMap<KeyId, usize>,
}

/// Counts them. Clones count together.
#[derive(Debug, Clone)]
pub struct Streams {
    counts: Arc<Mutex<Counts>>,
    of_one_key: usize,
    of_all: usize,
}

impl Default for Streams {
    fn default() -> Self {
        Self::bounded(OF_ONE_KEY, OF_ALL)
    }
}

impl Streams {
    /// At most so many of one key, and of all keys.
    pub fn bounded(of_one_key: usize, of_all: usize) -> Self {
        Self { counts: Arc::default(), of_one_key, of_all }
    }

    /// A place for one more of this key; none when there are as many as may be.
    pub fn enter(&self, key: KeyId) -> Option<Place> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.all >= self.of_all {
            return None;
        }
        let own = counts.by_key.entry(key).or_default();
        if *own >= self.of_one_key {
            return None;
        }
        *own += 1;
        counts.all += 1;
        Some(Place { counts: Arc::clone(&self.counts), key })
    }
}

/// The place of one live answer, for as long as this lives.
#[derive(Debug)]
pub struct Place {
    counts: Arc<Mutex<Counts>>,
    key: KeyId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all -= 1;
        if let Some(own) = counts.by_key.get_mut(&self.key) {
            *own -= 1;
            if *own == 0 {
                counts.by_key.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_bound_all_have_theirs_and_places_come_back() {
        let streams = Streams::bounded(2, 3);
        let key = |last: char| format!("key_018f3c2a7b4c7d3e9f6a5b4c3d2e1f0{last}").parse::<KeyId>().unwrap();
        let (one, two) = (key('0'), key('1'));
        let first = streams.enter(one).unwrap();
        let _second = streams.enter(one).unwrap();
        assert!(streams.enter(one).is_none());
        let _third = streams.clone().enter(two).unwrap();
        assert!(streams.enter(two).is_none());
        drop(first);
        assert!(streams.enter(two).is_some());
    }
}
