//! The runtime as a program, driven by the server's client.

#![expect(clippy::unwrap_used, reason = "a test may panic, and so may what it calls")]

mod adoption;
mod commands;
mod cuts;
mod files;
mod forward;
mod generations;
mod limits;
mod protocol;
mod runtime;
mod sandbox;
mod trees;
