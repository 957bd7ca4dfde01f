//! The client that commands talk to a server with. HTTP only: it never opens the store.

mod beneath;
mod connection;
mod failure;
mod follow;
mod key;
mod pack;
mod uhp;
mod words;

pub(crate) use beneath::{Directory, relative_path};
pub(crate) use connection::{Answer, Client, segment, source_path};
pub(crate) use failure::{Failure, OF_STEAD};
pub(crate) use follow::{follow_build_log, follow_output, until_answered};
pub(crate) use key::find_key;
pub(crate) use pack::{WRAPPER, pack};
pub(crate) use uhp::{
    Anything, Environment, Environments, FileTree, Files, HarnessItem, Harnesses, ImportResult, PackageCheck, Response,
    Runtimes, SessionItem, Sessions, Skipped, Turns, Versions,
};
