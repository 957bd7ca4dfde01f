//! The domain of Stead: every noun, every lifecycle, every decision, as pure data and pure functions.
//!
//! Nothing here does I/O, knows a clock or speaks a protocol. A use case of the engine loads a typed view, hands it
//! to a function of this crate and gets [`changes::Changes`] back, which the one writing port commits
//! ([`ports::Store::commit`]). The faces translate their protocol's words at the boundary; the words used here are
//! those of `docs/ARCHITECTURE.md`.
//!
//! Entry points: [`ids`] for identities, one module per noun, [`changes`] for what a decision returns, [`ports`] for
//! what the engine needs from the outside.
#![warn(missing_docs)]

pub mod agent;
pub mod attachment;
pub mod audit;
pub mod build;
pub mod changes;
pub mod declared;
pub mod digest;
pub mod environment;
pub mod error;
pub mod event;
pub mod file;
pub mod fuzzing;
pub mod idempotency;
pub mod ids;
pub mod item;
pub mod key;
pub mod lease;
pub mod limit;
pub mod network;
pub mod operation;
pub mod path;
pub mod ports;
pub mod precondition;
pub mod project;
pub mod retention;
pub mod session;
pub mod slug;
pub mod source;
pub mod time;
pub mod turn;
pub mod workspace;

pub use digest::BlobId;
pub use error::{Code, Error, ErrorKind, Result};
pub use ids::{
    AgentId, AttachmentId, AuditId, EnvironmentId, FileId, KeyId, LayerId, OperationId, ProjectId, ServerId, SessionId,
    TurnId, WorkspaceId,
};
pub use path::SourcePath;
pub use slug::Slug;
pub use time::Timestamp;
