//! One file per noun: its table, how it maps, and the SQL of its questions.

pub(crate) mod agent;
pub(crate) mod artifact;
pub(crate) mod attachment;
pub(crate) mod audit;
pub(crate) mod build;
pub(crate) mod census;
pub(crate) mod environment;
pub(crate) mod event;
pub(crate) mod idempotency;
pub(crate) mod key;
pub(crate) mod layer;
pub(crate) mod operation;
pub(crate) mod project;
pub(crate) mod session;
pub(crate) mod source;
pub(crate) mod turn;
pub(crate) mod upload;
pub(crate) mod workspace;
