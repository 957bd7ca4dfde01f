//! The shipped program from the outside.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "these are tests, though what they share is not marked as such"
)]

mod client;
mod configuration;
mod doctor;
mod program;
mod server;
mod serving;
mod working;
