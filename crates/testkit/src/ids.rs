//! Identities for tests.

use std::sync::atomic::{AtomicU64, Ordering};

use stead_domain::ports::IdSource;
use uuid::{Builder, Uuid};

/// Identities and secrets that follow from a seed: the same in every run, different for every seed, and ordered by creation.
#[derive(Debug)]
pub struct SeededIds {
    seed: u64,
    made: AtomicU64,
}

impl SeededIds {
    /// The first millisecond of the ids.
    const START_MS: u64 = 1_700_000_000_000;

    /// A source of its own for each seed.
    pub const fn new(seed: u64) -> Self {
        Self { seed, made: AtomicU64::new(0) }
    }

    /// Eight bytes that look random: the finisher of SplitMix64.
    fn mixed(&self, number: u64) -> u64 {
        let mut bits = self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

impl IdSource for SeededIds {
    fn uuid_v7(&self) -> Uuid {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let mut random = [0; 10];
        random[..8].copy_from_slice(&self.mixed(number).to_be_bytes());
        random[8..].copy_from_slice(&self.seed.to_be_bytes()[6..]);
        Builder::from_unix_timestamp_millis(Self::START_MS + number, &random).into_uuid()
    }

    fn secret(&self) -> [u8; 32] {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let mut secret = [0; 32];
        for (part, bytes) in (0..).zip(secret.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&self.mixed(!(number * 4 + part)).to_be_bytes());
        }
        secret
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_repeat_with_the_seed_and_are_ordered() {
        let (one, again, other) = (SeededIds::new(1), SeededIds::new(1), SeededIds::new(2));
        let ids: Vec<Uuid> = (0..100).map(|_| one.uuid_v7()).collect();
        assert_eq!(ids, (0..100).map(|_| again.uuid_v7()).collect::<Vec<_>>());
        assert!(ids.is_sorted());
        assert!(!ids.contains(&other.uuid_v7()));
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
        assert_ne!(one.secret(), one.secret());
    }
}
