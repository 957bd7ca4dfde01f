//! Handlers, one file per resource.

pub(crate) mod audit;
pub(crate) mod build_log;
pub(crate) mod builds;
pub(crate) mod keeping;
pub(crate) mod keys;
mod named;
pub(crate) mod output;
mod query;
pub(crate) mod server;
pub(crate) mod turns;
pub(crate) mod workspaces;
