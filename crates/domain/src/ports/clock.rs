//! Time, randomness and identity, taken from one adapter each.

use uuid::Uuid;

use crate::time::Timestamp;

/// The wall clock.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// Where identities and secrets come from.
pub trait IdSource: Send + Sync {
    /// A fresh UUID of version 7.
    fn uuid_v7(&self) -> Uuid;

    /// 256 random bits.
    fn secret(&self) -> [u8; 32];
}
