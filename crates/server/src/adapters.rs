//! The one place where the wall clock is read and where identities and secrets come from.

use std::time::{SystemTime, UNIX_EPOCH};

use rand::TryRngCore;
use rand::rngs::OsRng;
use stead_domain::Timestamp;
use stead_domain::ports::{Clock, IdSource};
use uuid::Uuid;

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the adapter that everything else takes the time from")]
    fn now(&self) -> Timestamp {
        // A clock before 1970 counts as 1970: there is no earlier record to be in order with.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
    }
}

/// Identities and secrets from the kernel's random source.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    #[expect(clippy::disallowed_methods, reason = "this is the adapter that everything else takes ids from")]
    fn uuid_v7(&self) -> Uuid {
        Uuid::now_v7()
    }

    fn secret(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        OsRng.try_fill_bytes(&mut bytes).expect("getrandom does not fail once the machine has booted");
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_ascend_secrets_differ_and_time_is_past_2020() {
        let ids: Vec<Uuid> = (0..100).map(|_| RandomIds.uuid_v7()).collect();
        assert!(ids.is_sorted() && ids[0].get_version_num() == 7);
        assert_ne!(RandomIds.secret(), RandomIds.secret());
        assert!(SystemClock.now().as_seconds() > 1_577_836_800);
    }
}
