//! Integration tests of stead-projects: trees on a real disk, and plans whose commands really run.

#![expect(clippy::unwrap_used, reason = "the helpers of these tests fail by panicking, too")]

mod cases;
mod layout;
mod memory_blobs;
mod namespace;
mod project;
mod scripts;

/// Ends a test that needs root, saying so; with `STEAD_NO_SKIP=1` that is a failure.
macro_rules! needs_root {
    () => {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var("STEAD_NO_SKIP").as_deref() != Ok("1"), "this test needs root");
            println!("skipped: needs root");
            return;
        }
    };
}
pub(crate) use needs_root;
