//! Real sandboxes, made by the launcher binary: every test runs as root and, in a second run that `ordinary` starts, as an
//! ordinary user.

mod calls;
mod confine;
mod escapes;
#[cfg(test)]
mod fixture;
mod limits;
mod mounts;
mod ordinary;
mod start;
mod usage;

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
