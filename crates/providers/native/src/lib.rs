//! Environments and builds as sandboxes of this machine.
//!
//! [`NativeProvider`] implements the domain's `Provider` (sessions, whose files stay when they are stopped) and
//! `BuildSandboxes` (build steps, which leave nothing but what they wrote). Both are the same thing underneath: a plan for
//! `stead-sandbox`, whose process 1 is the runtime, dialled over `stead-link`, with an egress socket where the network is enabled.
//!
//! On disk, beneath the data directory, readable by the service alone:
//!
//! ```text
//! environments/<hex>/record.json   what exists and which slot it has; on disk before a caller hears of it
//! environments/<hex>/{work,home}   the files of a session, owned by the slot's user
//! environments/slots/<n>           who has slot n: a range of user ids and the names e<n> and b<n>
//! environments/place.json          where the data directory is, and which user ids its slots have
//! ```
//!
//! and beneath the run directory, for as long as something runs: `<name>/{launch.json,runtime.sock,egress/proxy.sock}`.
//!
//! As root, each slot has user ids of its own, which the machine's services share out among them (module `ids`). As an ordinary user
//! everything has the service's one id. The egress proxy is a process of its own (module `egress`): a program that links this crate
//! calls [`egress_main`] first thing when [`started_as_egress`].
//!
//! Ordering: a slot is leased before the first file is made and released after the last one is gone, so a user id never
//! owns two tenants' files. Whatever ends a sandbox, one task notices, clears up after it and only then reports the end
//! (module `sandbox`); a name is used again after that report alone.

mod accounting;
mod adoption;
mod builds;
mod config;
mod egress;
mod exec;
mod fault;
mod host;
mod ids;
mod in_memory;
mod launches;
mod leftovers;
mod limits;
mod ownership;
mod plan;
mod processes;
mod program;
mod provider;
mod pulse;
mod record;
mod removal;
mod run_directory;
mod runtime;
mod sandbox;
mod sessions;
mod shut;
mod slots;
mod sweep;
mod watcher;

pub use config::{DEFAULT_UID_BASE, NativeConfig, RANGES, RuntimeProgram, UIDS_PER_SLOT};
pub use egress::{EGRESS_NAME, egress_main, started_as_egress};
pub use ids::{IdHolder, accounts, noted_node, range_of, services};
pub use leftovers::{Leftover, LeftoverKind, Owner, leftovers};
pub use provider::NativeProvider;
pub use stead_egress::PortRule;
