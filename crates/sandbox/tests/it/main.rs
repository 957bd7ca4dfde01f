//! Real sandboxes, made as root by the launcher binary.

mod calls;
mod escapes;
#[cfg(test)]
mod fixture;
mod limits;
mod mounts;
mod start;

/// Leaves the test when it cannot make sandboxes, saying so; with `STEAD_NO_SKIP=1` that is a failure.
#[macro_export]
macro_rules! needs_root {
    () => {
        if let Err(reason) = $crate::fixture::can_make_sandboxes() {
            assert!(std::env::var_os("STEAD_NO_SKIP").is_none(), "cannot run here: {reason}");
            println!("skipped: {reason}");
            return;
        }
    };
}
