//! What can go wrong on the server's side of the link.

use std::path::PathBuf;

use crate::frame::FrameError;
use crate::reply::{ErrorCode, Reply};

/// A failure of the link or of a request on it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LinkError {
    /// The socket could not be dialled.
    #[error("cannot dial the runtime at {}", path.display())]
    Dial {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::sync::Arc<std::io::Error>,
    },
    /// The runtime did not answer the hello in time.
    #[error("the runtime at {} did not answer the hello in time", path.display())]
    HandshakeTimeout {
        /// The socket.
        path: PathBuf,
    },
    /// The connection ended while something was pending. What became of a running command is not known.
    #[error("the connection to the runtime is gone: {reason}")]
    Disconnected {
        /// Why, for people.
        reason: String,
    },
    /// The runtime broke the rules of the protocol; the connection was closed.
    #[error("the runtime broke the protocol: {reason}")]
    Protocol {
        /// Which rule, for people.
        reason: String,
    },
    /// The runtime refused the request or failed at it.
    #[error("the runtime refused: {message} ({code:?})")]
    Refused {
        /// For programs.
        code: ErrorCode,
        /// For people.
        message: String,
    },
    /// The request is too long for a frame.
    #[error("the request does not fit into a frame")]
    TooLong(#[from] FrameError),
    /// A result was longer than the caller allowed.
    #[error("the result is longer than the allowed {limit} bytes")]
    TooMuch {
        /// The caller's limit in bytes.
        limit: u64,
    },
    /// A stream's data was written after its end.
    #[error("the stream takes no more data")]
    Ended,
}

impl LinkError {
    /// The runtime's code, when it was the runtime that refused.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// The runtime answered with a message that does not belong to the question.
pub(super) fn unexpected(question: &str, reply: &Reply) -> LinkError {
    let answer: String = format!("{reply:?}").chars().take(80).collect();
    LinkError::Protocol { reason: format!("unexpected answer to {question}: {answer}") }
}
