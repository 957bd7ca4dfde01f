//! The shipped program from the outside.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "these are tests, though what they share is not marked as such"
)]

mod apart;
mod api;
mod artifacts;
mod audit;
mod builds;
mod caches;
mod client;
mod collect;
mod configuration;
mod crash;
mod damage;
mod declared;
mod directory;
mod doctor;
mod documented;
mod field_cases;
mod files;
mod first_start;
mod git;
mod git_server;
mod hostile;
mod isolation;
mod layers;
mod leaving;
mod limits;
mod misuse;
mod network;
mod node_locks;
mod objects;
mod observing;
mod ordinary;
mod packages;
mod pins;
mod postgres;
mod probes;
mod program;
mod python_locks;
mod refusals;
mod resuming;
mod schemathesis;
mod server;
mod serving;
mod shares;
mod sharing;
mod silent;
mod successor;
mod tasks;
mod tenants;
mod toolchain;
mod traces;
mod uhp_client;
mod upgrade;
mod verbs;
mod working;
