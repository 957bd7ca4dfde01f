//! The face from outside: what it writes against the published schema, and what the router does before and with the engine.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod artifacts;
mod client;
mod environments;
mod files;
mod foreign;
mod gates;
mod networks;
mod objects;
mod packages;
mod provider;
mod schema;
mod streams;
mod tasks;
mod workspaces;
