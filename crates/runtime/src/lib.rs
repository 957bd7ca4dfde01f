//! The runtime: process 1 of an environment.
//!
//! It runs commands and serves files for the server that dials it, over the protocol of `stead-link`. It is started by the
//! launcher with three descriptors and no more:
//!
//! | descriptor | what |
//! |---|---|
//! | 0 | a *listening* unix stream socket, bound outside the environment's view |
//! | 1 | anything; not used |
//! | 2 | where a fatal error is written; normally a log or `/dev/null` |
//!
//! and with the arguments `TOKEN_SHA256 [--proxy ADDRESS:PORT=SOCKET]… [--orphan-grace SECONDS]`. The SHA-256 (64 hexadecimal digits) of the token
//! is no secret: arguments can be read by every process of the environment. Whoever dials must send the token itself.
//!
//! * One thread, one poll loop (`serve`): nothing in it waits, and nothing needs a new thread or process once a command runs,
//!   so the server keeps control of an environment that has used up its processes.
//! * Each command has its own supervisor process (`supervisor`), which inherits every orphan of the command, so what
//!   belongs to it is exact and can be killed to the last process.
//! * Memory is bounded: output is read from a command only as far as its reader has given credit, or as far as a named command's
//!   spool has room.
//! * A named command outlives its connection, and whoever proves the token may take it over. Without a server for longer than the
//!   grace everything is killed and the program ends.
//!
//! No `unsafe`: descriptors that are not standard ones are passed over a socket, and signals arrive as readable bytes.

mod config;
mod connection;
mod exec;
mod files;
mod forward;
mod hardening;
mod processes;
mod readiness;
mod serve;
mod signals;
mod supervisor;

pub use config::{Config, ConfigError, Mode, Proxy};
pub use serve::{RuntimeError, serve};
pub use supervisor::{SupervisorError, supervise};
