//! The proxy in a process of its own, which the service starts, confines and talks to.
//!
//! ```text
//!   service (Remote)  ── control socket (SEQPACKET, JSON, descriptors) ──  proxy process (serve)
//!      binds each sandbox's socket, keeps a copy ─── listener + policy ──▶ accepts, judges, dials
//!      writes the log                            ◀── records, answers ───
//! ```
//!
//! Rules of the control socket:
//! * An order has a number and gets exactly one answer with that number. Records for the log come in between.
//! * A packet has at most 16 KiB. A policy (256 names of 253 bytes are 66 KiB) travels in a memory file beside the listener.
//! * A packet that cannot be understood ends the process, on either side, with a line that says why. Nothing is guessed at.
//! * When the control socket closes, the process ends at once, and every connection with it. Clients see the end of their
//!   connections; new ones wait in the backlog of the socket, whose copy the service holds, until it is opened in a new process.
//! * A process that was let go takes no more orders and outlives the control socket: connections go on, new ones are taken, until
//!   its time is over. That is how a service that hands over to another leaves its tunnels open.
//!
//! The proxy process has no log of its own: what it has to say comes as bounded records over the control socket.

mod control;
mod messages;
mod remote;
mod serving;

pub use control::ControlError;
pub use remote::{Remote, RemoteError, RemoteHandle};
pub use serving::serve;
