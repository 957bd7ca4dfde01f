//! Projects: from a source tree and its manifests to a version on disk.
//!
//! This crate *plans* and *lays out*. It says which steps a build has, what each step sees, what its layer's key is and
//! which command it runs; it puts source trees on disk, seals what a step wrote and says what a session mounts. It runs
//! nothing (detecting the host's tools at start aside), knows no row and decides nothing about when to build.
//!
//! A build, as the engine drives it:
//!
//! ```text
//! snapshot::decode ─▶ snapshot::for_build ─▶ plan::plan ─▶ Layout::lay_out_version
//!        for each step without a layer of its key:  Layout::prepare_step ─▶ (sandbox runs it) ─▶ Layout::keep_layer
//!        InstallPlan::placed ─▶ Build.version.layers ─▶ Layout::mounts for sessions
//! ```
//!
//! Every function blocks; callers run them on a blocking thread.

mod beneath;
pub mod environment;
pub mod fuzzing;
pub mod layout;
pub mod packages;
pub mod plan;
pub mod snapshot;
mod system;
mod system_packages;
pub mod toolchain;

pub use layout::{Layout, LayoutError};
pub use plan::{BuildSettings, InstallPlan, PlanError, Step};
pub use system::OperatingSystem;
pub use toolchain::Toolchain;
