//! The one way out of Stead to an address that a user named.
//!
//! Git remotes, MCP servers, model base URLs, token endpoints and everything a session asks the egress proxy for are
//! dialled here, in one order that must not change: parse the name, check it and the port against the [`Policy`],
//! resolve once, judge every address, and connect to an address that was judged. There is no second resolution, so a
//! name server that changes its mind between two questions gains nothing.
//!
//! A client library that dials for itself (an HTTP client with a resolver hook, a tool with a `--resolve` option) asks
//! [`Dialer::judge`] and is given the judged addresses.

mod deny;
mod dialer;
mod error;
mod host;
mod host_addresses;
mod policy;
mod resolver;

pub use deny::{DenyReason, classify};
pub use dialer::{Deadlines, Dialer};
pub use error::{Denied, DialError};
pub use host::{Host, HostName, InvalidHost};
pub use host_addresses::{HostAddresses, Network, OwnNetworks};
pub use policy::{NameRule, Policy, PortRule};
pub use resolver::{CONCURRENT_QUESTIONS, Resolver, Resolving, SystemResolver, Turn};
