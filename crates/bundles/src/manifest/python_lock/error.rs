//! Why a lock cannot be used.

use crate::manifest::TextError;

/// Why a lock cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Its bytes are no text.
    #[error("the file is unreadable")]
    Text(#[source] TextError),
    /// It is not TOML or JSON; the text names the place.
    #[error("the file cannot be parsed: {0}")]
    Syntax(String),
    /// It is of a format that is not known, or lacks what its format prescribes.
    #[error("the lock is of a form that is not supported: {0}")]
    Unsupported(String),
    /// A package in it cannot be installed from what the lock says.
    #[error("its package `{name}` cannot be used: {reason}")]
    Package {
        /// The package.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It is for other versions of Python than the one that builds.
    #[error("it is for Python {requires}, and Python {found} is what builds here")]
    Python {
        /// The versions that it is for.
        requires: String,
        /// The version that is there.
        found: String,
    },
    /// The manifest has changed since it was made.
    #[error("it does not fit {manifest}: {reason}; lock the project anew with `{command}`")]
    Stale {
        /// The manifest.
        manifest: String,
        /// How that is seen.
        reason: String,
        /// What makes a new lock.
        command: &'static str,
    },
}

impl LockError {
    pub(super) fn package(name: &str, reason: impl Into<String>) -> Self {
        Self::Package { name: name.to_owned(), reason: reason.into() }
    }
}
