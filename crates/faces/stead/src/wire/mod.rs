//! What travels: bodies of `/stead/v1`, without a web framework, so that a client uses the same types.
//!
//! Times are Unix seconds. Unknown members of a request are refused by name, since a misspelled one would otherwise be
//! believed; unknown members of an answer are ignored.

mod audit;
mod build;
mod error;
mod frames;
mod keeping;
mod key;
mod output;
mod server;
mod turn;
mod workspace;

pub use audit::{AuditEntry, AuditList, AuditTarget};
pub use build::{Build, LOG_OFFSET};
pub use error::{ErrorBody, ErrorEnvelope};
pub use frames::{FrameError, FrameReader, HEARTBEAT, OUTPUT_FRAMES, end_frame};
pub use keeping::{Collected, Kept, Usage};
pub use key::{Key, KeyCreate, KeyCreated, KeyList};
pub use output::{Exit, OUTPUT_LINES, OutputLine, Stream};
pub use server::Server;
pub use turn::{ExcessFile, LimitHit, Reads, Turn, TurnArtifact, TurnFailure};
pub use workspace::{Workspace, WorkspaceCreate, WorkspaceList};
