//! Linux isolation: a *plan* (plain data) and the *launcher* that turns it into a running sandbox.
//!
//! The server describes a sandbox as a [`plan::SandboxPlan`] and calls [`launch()`]. That starts our own
//! binary again under the name [`LAUNCHER_NAME`]; a program that links this crate must therefore begin
//! its `main` with
//!
//! ```no_run
//! if stead_sandbox::started_as_launcher() {
//!     stead_sandbox::launcher_main();
//! }
//! ```
//!
//! before any thread or runtime exists. The launcher is single-threaded, makes the namespaces, and
//! executes the program; the server itself never forks, never unshares and never loads a filter.
//!
//! This crate knows nothing about what runs inside. It only makes sure that, whatever runs, it cannot
//! write what it was shown read-only, see another sandbox, reach the host's network or devices, or use
//! more than its limits. A helper of the service that cannot live in a sandbox, because it keeps the host's network, is
//! confined by [`confine()`].

mod ahead;
mod capabilities;
pub mod cgroup;
mod confine;
pub mod disk;
pub mod features;
pub mod identity;
mod kernel;
mod launch;
mod launched;
mod launcher;
mod message;
pub mod plan;
pub mod seccomp;
pub mod unlinked;

pub use ahead::Launcher;
pub use confine::{Confinement, confine};
pub use launch::{Handover, LAUNCH_DEADLINE, LaunchError, launch};
pub use launched::{Exit, Launched};
pub use launcher::{LAUNCHER_NAME, launcher_main, started_as_launcher};
pub use message::{Failure, LandlockStatus, Step};
