//! The proxy over real sockets, with a scripted name server and upstreams on loopback.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get ends the test")]

mod bounds;
mod harness;
mod hello;
mod plain;
mod process;
mod rules;
mod shares;
mod socks;
mod tunnels;
