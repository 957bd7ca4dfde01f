//! The proxy that sessions and builds go through; the only way out of a sandbox whose network is not disabled.
//!
//! Each sandbox has a unix socket of its own; a forwarder inside the sandbox leads
//! `127.0.0.1:3128` to it. The proxy speaks `CONNECT`, absolute-form `http://` requests and SOCKS 5, nothing else. For every
//! request the order is: parse, check name and port, resolve, judge, connect to what was judged (all of that in
//! `stead-outbound`), then move bytes. Where the policy lists exact names, a tunnel must open with a TLS ClientHello
//! whose server name is the name that was asked for.
//!
//! What this cannot see: behind a shared front (a CDN) the request inside TLS may name another site of that front.
//!
//! The crate knows neither the store nor the domain: it runs in a process of its own ([`process`]), which the service starts
//! under a user of its own.

mod body;
mod buffered;
mod client_hello;
mod connection;
mod counters;
mod forward;
mod framing;
mod headers;
mod journal;
mod lines;
mod listening;
mod policy;
mod refusal;
mod request;
mod response;
mod server;
mod shares;
mod socks;
mod splice;
mod target;
mod tunnel;

pub mod fuzzing;
pub mod process;

pub use client_hello::{Hello, NotAClientHello, parse_client_hello};
pub use counters::Stats;
pub use policy::{Limits, Policy};
pub use refusal::RefusalCode;
pub use server::{Egress, EgressHandle, OpenError};
pub use stead_outbound::{Host, HostName, NameRule, PortRule};
