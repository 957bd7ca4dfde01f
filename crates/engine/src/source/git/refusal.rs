//! Why an import from git did not happen, for whoever asked for it.

use serde_json::json;
use stead_bundles::git::{GitFailure, GitTreeError};
use stead_domain::limit::{Holder, Limit, Reached};
use stead_domain::ports::{ProviderError, RuntimeError};
use stead_domain::{Code, Error};

use super::super::landing::limit_reached;
use super::request::GitImport;
use crate::engine::Engine;

pub(super) fn invalid(field: &str, message: impl Into<String>) -> Error {
    Error::new(Code::ProjectInvalid, message).at(format!("git.{field}"))
}

fn unavailable(message: impl Into<String>) -> Error {
    Error::new(Code::BackendUnavailable, message)
}

/// The sandbox is gone in the middle of its work.
pub(super) fn lost(error: RuntimeError) -> Error {
    unavailable("the sandbox of the import was lost").because(error)
}

/// Nothing in the repository has the name.
pub(super) fn no_such_ref(import: &GitImport) -> Error {
    let whole = if import.reference.looks_like_short_id() {
        "; a commit is named by its whole id, 40 or 64 digits"
    } else {
        ""
    };
    invalid("ref", format!("the repository has no branch, tag or commit `{}`{whole}", import.reference))
}

/// The host gives the commit out neither by its id nor beneath its refs.
pub(super) fn commit_not_given(import: &GitImport) -> Error {
    let id = &import.reference;
    let why =
        "the host does not give it out by its id, and not all of its branches and tags can be fetched to look for it";
    invalid("ref", format!("the commit `{id}` could not be fetched: {why}"))
}

/// The host cannot be reached as it is.
pub(super) fn not_reached(error: &ProviderError) -> Error {
    match error.code.as_str() {
        "host_invalid" => invalid("url", format!("the host of the url is {}", error.message)),
        "host_closed" => invalid("url", format!("{}: the address is not allowed", error.message)),
        "host_denied" => invalid(
            "url",
            format!(
                "{}: the address is not allowed; the operator may name the host in git.allowed_hosts",
                error.message
            ),
        ),
        _ => unavailable(error.message.clone()).at("git.url"),
    }
}

pub(super) fn tree(error: GitTreeError) -> Error {
    let message = error.to_string();
    match error {
        GitTreeError::TooLarge { limit, max } => limit_reached(limit, max, message),
        GitTreeError::Malformed | GitTreeError::TooManyDirectories { .. } => Error::new(Code::ProjectInvalid, message),
    }
}

/// An exit status of the script's own.
pub(super) fn of_script(status: i32) -> Option<Error> {
    Some(match status {
        90 => invalid("url", "import from git is not served: this server has no git"),
        91 => unavailable("the credentials could not be handed to git"),
        92 => invalid("url", "import over ssh is not served: this server has no ssh client"),
        93 => invalid("stead_ssh_key", "the private key cannot be read; one with a passphrase is of no use here"),
        _ => return None,
    })
}

impl Engine {
    /// What git's failure means for the import.
    pub(super) fn git_refused(&self, import: &GitImport, failure: GitFailure) -> Error {
        match failure {
            GitFailure::Credentials if import.is_private() => {
                invalid("url", "the credentials were refused: the host does not let them read this repository")
            }
            GitFailure::Credentials => {
                invalid("url", "the repository needs credentials, and reading it without any was refused")
            }
            GitFailure::NotFound if import.is_private() => {
                invalid("url", "there is no repository at the url, or the credentials do not let it be seen")
            }
            GitFailure::NotFound => {
                invalid("url", "there is no repository at the url, or it needs credentials to be seen")
            }
            GitFailure::Redirected => invalid(
                "url",
                "the repository's host redirects to another host or port, which is not followed; name the one that it leads to",
            ),
            GitFailure::NoSuchRef => no_such_ref(import),
            GitFailure::HostKey => {
                invalid("stead_known_hosts", "the key of the ssh host is not the one that is known: nothing was sent")
            }
            GitFailure::Certificate => invalid("url", "the certificate of the host is not trusted by this server"),
            GitFailure::Unreachable => unavailable("the host does not answer as a git server").at("git.url"),
            GitFailure::TooLarge => self.git_too_large(),
            GitFailure::NotShallow => unavailable("the host gives out no history that can be read").at("git.url"),
            GitFailure::Unquoted => {
                invalid("url", "git could not fetch; what the host said is not shown, since it was sent credentials")
            }
            GitFailure::Other(line) => invalid("url", format!("git could not fetch: {line}")),
        }
    }

    /// More came from the repository than an import may bring.
    pub(super) fn git_too_large(&self) -> Error {
        let max = self.settings.limits.import_bytes;
        Error::new(
            Code::FileTooLarge,
            format!("the repository is larger than the {max} bytes that an import may bring"),
        )
        .detail(json!({ "max_bytes": max }))
    }

    /// A limit of the sandbox that was reached, in place of what it made git say.
    pub(super) fn git_exceeded(&self, reached: &Reached) -> Error {
        match reached.limit() {
            Limit::Disk => self.git_too_large(),
            _ => Error::new(Code::ProjectInvalid, format!("the import {}", reached.phrase(Holder::Import))),
        }
    }

    pub(super) fn git_took_too_long(&self) -> Error {
        let seconds = self.settings.git.time_limit.as_secs();
        unavailable(format!("the import took longer than its limit of {seconds} seconds")).at("git.url")
    }
}
