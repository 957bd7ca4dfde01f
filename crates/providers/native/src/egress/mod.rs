//! The egress proxy in a process of its own: what that process does ([`process`]), and how the service keeps one running
//! ([`keeper`]).

mod keeper;
mod process;

pub(crate) use keeper::{Keeper, Opened};
pub use process::{EGRESS_NAME, egress_main, started_as_egress};
