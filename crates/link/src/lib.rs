//! Frames and messages between the server and the runtime that is process 1 of an environment.
//!
//! * [`frame`]: the outer frame, which never changes, and how many bytes a stream may have in flight.
//! * [`request`]: what the server says. [`reply`]: what the runtime says.
//! * [`generation`]: the one integer that both sides negotiate.
//! * [`fuzzing`]: the entry point for a fuzzer.
//! * `client` (feature `client`): the asynchronous client that the server dials with.
//!
//! The runtime uses the pure parts and no asynchronous code, so that it stays small.
//!
//! Ordering: a connection begins with [`Request::Hello`] on stream 0, answered with [`Reply::Welcome`] or a fatal
//! [`Reply::Error`]. After that the server opens streams with ids of its choice (not 0, not one that is in use). A stream ends with the
//! message that its request names as the last one, or with [`Reply::Error`]; the id may be used again then.
//!
//! A command with a name (generation 2) outlives its stream. Its output, both streams in the order of arrival, is one sequence
//! of bytes; what is not acknowledged stays in the runtime, and [`Request::Adopt`] has it sent again. A command without a name
//! is killed when its connection is lost. A peer of generation 1 knows no names: its runtime is asked for none, and a server that
//! reconnects to one ends the tree with [`Request::KillAll`].

#[cfg(feature = "client")]
pub mod client;
pub mod frame;
pub mod fuzzing;
pub mod generation;
pub mod reply;
pub mod request;

#[cfg(feature = "client")]
pub use client::{Client, Command, Exec, ExecEvent, ExecOutcome, ExecSpec, FileRead, Files, LinkError, Listing};
pub use frame::{Frame, FrameError, Kind};
pub use generation::{GENERATION, MARK};
pub use reply::{ErrorCode, ExitReason, ExitReport, FileEntry, FileInfo, Reply};
pub use request::{ExecRequest, NAME_BYTES, Program, Request, StdinMode, Token};
