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
mod objects;
mod program;
mod server;
mod serving;
mod working;
