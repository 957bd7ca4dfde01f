//! The shipped program from the outside.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "these are tests, though what they share is not marked as such"
)]

mod api;
mod client;
mod configuration;
mod crash;
mod doctor;
mod isolation;
mod objects;
mod packages;
mod pins;
mod postgres;
mod program;
mod refusals;
mod server;
mod serving;
mod tasks;
mod toolchain;
mod uhp_client;
mod working;
