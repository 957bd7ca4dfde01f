//! The face from outside: what it writes against the published schema, and what the router does before and with the engine.

mod client;
mod environments;
mod gates;
mod objects;
mod provider;
mod schema;
mod streams;
mod tasks;
