//! The shipped program from the outside.

mod client;
mod configuration;
mod program;
mod server;
mod serving;
mod working;
