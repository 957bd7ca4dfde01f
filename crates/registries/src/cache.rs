//! What registries answered a moment ago. Only answers are kept: a failure is asked about again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stead_domain::declared::PackageManager;
use tokio::time::Instant;

use crate::listing::Listing;

/// How long an answer is taken again.
const FRESH_FOR: Duration = Duration::from_mins(1);
/// Answers kept at once.
const MOST: usize = 256;

/// A package of a registry, by its one name.
pub(crate) type Key = (PackageManager, String);

/// Answers by package.
pub(crate) struct Cache {
    entries: Mutex<HashMap<Key, (Instant, Arc<Listing>)>>,
    fresh_for: Duration,
}

impl Default for Cache {
    fn default() -> Self {
        Self { entries: Mutex::default(), fresh_for: FRESH_FOR }
    }
}

impl Cache {
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Listing>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).filter(|(at, _)| at.elapsed() < self.fresh_for).map(|(_, listing)| Arc::clone(listing))
    }

    pub(crate) fn put(&self, key: Key, listing: Arc<Listing>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MOST {
            entries.retain(|_, (at, _)| at.elapsed() < self.fresh_for);
        }
        if entries.len() >= MOST
            && let Some(oldest) = entries.iter().min_by_key(|(_, (at, _))| *at).map(|(key, _)| key.clone())
        {
            entries.remove(&oldest);
        }
        entries.insert(key, (Instant::now(), listing));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_age_and_are_bounded() {
        let key = |number: usize| (PackageManager::Npm, number.to_string());
        let mut cache = Cache::default();
        for number in 0..=MOST {
            cache.put(key(number), Arc::new(Listing::Absent));
        }
        assert!(cache.get(&key(0)).is_none() && cache.get(&key(1)).is_some() && cache.get(&key(MOST)).is_some());
        cache.fresh_for = Duration::ZERO;
        assert!(cache.get(&key(MOST)).is_none());
        cache.put(key(0), Arc::new(Listing::Absent));
        assert_eq!(cache.entries.lock().unwrap().len(), 1, "the old ones went first");
    }
}
