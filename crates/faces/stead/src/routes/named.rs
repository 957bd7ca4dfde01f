//! The things that a path names. What is not an id names nothing that exists: the answer is that of a made-up id.

use stead_domain::{Code, Error, KeyId, ProjectId, Result, TurnId};

pub(crate) fn project(text: &str) -> Result<ProjectId> {
    text.parse().map_err(|_| Error::new(Code::ProjectNotFound, "there is no such project"))
}

pub(crate) fn build(text: &str) -> Result<u32> {
    let number = text.parse().ok().filter(|&number: &u32| number > 0);
    number.ok_or_else(|| Error::new(Code::BuildNotFound, "there is no such build"))
}

pub(crate) fn key(text: &str) -> Result<KeyId> {
    text.parse().map_err(|_| Error::new(Code::KeyNotFound, "there is no such key"))
}

/// A turn, by its own id or as UHP spells it.
pub(crate) fn turn(text: &str) -> Result<TurnId> {
    let id = if text.starts_with("resp_") { TurnId::parse_spelled("resp", text) } else { text.parse() };
    id.map_err(|_| Error::new(Code::TurnNotFound, "there is no such turn"))
}
