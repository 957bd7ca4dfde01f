//! Bodies of UHP 2026-09-28, as types that name no framework.
//!
//! Requests are read leniently (unknown fields are ignored, `null` is as good as absent), answers are written exactly: tasks,
//! sessions, files and events in snake_case with seconds, harnesses and environments in camelCase with milliseconds (UHP §2).

pub mod discovery;
pub mod environment;
pub mod error;
pub mod event;
pub mod file;
pub mod harness;
pub mod ids;
pub mod model;
pub mod network;
pub mod nullable;
pub mod response;
pub mod session;
pub mod task;

use schemars::JsonSchema;
use serde::Serialize;

/// The answer of every DELETE that has one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Deleted {
    /// What was deleted.
    pub id: String,
    /// Always true.
    pub deleted: bool,
}

impl Deleted {
    /// The receipt for `id`.
    pub fn of(id: impl Into<String>) -> Self {
        Self { id: id.into(), deleted: true }
    }
}
