//! The Unified Harness Protocol, version 2026-09-28, over the engine.
//!
//! [`router`] serves every `/v1/…` path that UHP names. A request passes its gates in one order: route, method, protocol
//! version, credential, verb, size, syntax, shape, the object in the path, and then what the engine decides. The first four
//! are `auth`'s extractors and the router; `body` holds sizes and syntax; each file of `routes` reads its shapes with the
//! types of [`wire`] and calls one use case. Refusals become envelopes in one place, `errors`.
#![warn(missing_docs)]

pub mod assemble;
mod auth;
mod body;
mod conditions;
mod download;
mod errors;
mod fingerprint;
pub mod fuzzing;
mod input;
mod names;
mod query;
mod range;
mod reply;
mod request_id;
mod resume;
mod room;
mod routes;
mod state;
mod stream;
mod version;
pub mod wire;
mod words;

pub use routes::{document, router, table};
pub use state::FaceState;
pub use version::{VERSION, VERSIONS};
