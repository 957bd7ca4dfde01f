//! Real sandboxes of the native provider: every test runs as root and, in a second run that `ordinary` starts, as an ordinary user.

#![expect(clippy::unwrap_used, reason = "a test may panic, and so may what it calls")]

mod adoption;
mod builds;
mod contract;
mod crashes;
mod egress;
#[cfg(test)]
mod fixture;
mod isolation;
mod leases;
mod network;
mod ordinary;
mod sessions;

/// Leaves the test when it is about what only root has, saying so.
#[macro_export]
macro_rules! only_for_root {
    ($reason:literal) => {
        if $crate::fixture::mode() != $crate::fixture::Mode::Root {
            println!("skipped: not for an ordinary user: {}", $reason);
            return;
        }
    };
}
