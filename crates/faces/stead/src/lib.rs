//! Stead's own face, `/stead/v1`: what the public protocols have no word for.
//!
//! Workspaces, keys, the raw log of a build while it runs, cancelling a build, builds that reuse nothing, and the raw output and exit
//! status of a turn. The command line uses it beside UHP. It holds no logic: a handler authenticates, checks the key's
//! verb, decodes, calls one use case of the engine and converts.
//!
//! Entry points: [`router()`], and [`wire`] for a client, which names no web framework.
#![warn(missing_docs)]

mod auth;
mod body;
mod extract;
mod refusal;
mod request;
mod router;
mod routes;
mod state;
pub mod wire;

pub use router::{document, router, table};
pub use state::FaceState;
