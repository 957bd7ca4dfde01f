//! What the registries of pip, npm and apt say of a package, before any build (UHP Environments, package check).
//!
//! pip's is an index of the simple repository API (PEP 503, 691), npm's a registry of abbreviated documents, apt's the
//! package lists of this machine. Where the first two lie is the operator's business and comes in by [`RegistryConfig`];
//! no address is compiled in. They are dialled as everything that somebody names is: through `stead-outbound`, each
//! redirect anew. The user of an address goes to that origin alone, and to no answer, error or log.
//!
//! Each question has the same order: what was answered a moment ago, a free place among the questions under way, the
//! registry, the spec against what it lists. Everything after the first is under one deadline.
#![warn(missing_docs)]

mod address;
mod apt;
mod cache;
mod client;
mod config;
mod failure;
mod fetch;
pub mod fuzzing;
mod listing;
mod node;
mod python;

pub use client::RegistryClient;
pub use config::{InvalidConfig, RegistryConfig};
