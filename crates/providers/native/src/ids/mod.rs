//! The host's user ids: which this service has ([`place`], [`registry`]), and who gets which of them ([`users`]).

mod accounts;
mod place;
mod registry;
mod users;

pub use accounts::{IdHolder, accounts};
pub use place::noted_node;
pub(crate) use place::{check, claim, remembered};
pub use registry::{range_of, services};
pub(crate) use users::{RUN_ID, Users};
