//! The host's user ids: which this service has ([`place`], [`registry`]), and who gets which of them ([`users`]).

mod accounts;
mod place;
mod registry;
mod users;

pub(crate) use place::claim;
pub(crate) use users::{RUN_ID, Users};
