//! The `stead` program: configuration, wiring and the command line.
//!
//! `stead serve` puts the parts together and serves every face on one address; `stead doctor` says what this machine can
//! enforce; every other command is a client over HTTP. No logic of the product lives here.
//!
//! Entry points: [`main`], [`config`] for what can be configured, [`adapters`] for time and randomness.

pub mod adapters;
mod cli;
mod client;
mod commands;
pub mod config;
mod console;
mod program;
mod registries;
mod serve;

pub use program::main;
