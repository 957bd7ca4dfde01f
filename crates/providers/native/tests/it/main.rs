//! Real sandboxes of the native provider, made as root.

#![expect(clippy::unwrap_used, reason = "a test may panic, and so may what it calls")]

mod builds;
mod contract;
mod crashes;
mod fixture;
mod isolation;
mod network;
mod sessions;

/// Leaves the test when it cannot make sandboxes, saying so; with `STEAD_NO_SKIP=1` that is a failure.
#[macro_export]
macro_rules! needs_root {
    () => {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("STEAD_NO_SKIP").is_none(), "cannot run here: sandboxes need root");
            println!("skipped: sandboxes need root");
            return;
        }
    };
}
