//! The runtime as a program, driven by the server's client.

mod commands;
mod files;
mod forward;
mod limits;
mod protocol;
mod runtime;
mod trees;
