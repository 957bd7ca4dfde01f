//! Why a command did not succeed, in words for people.

use std::fmt;

use stead_face_stead::wire::ErrorEnvelope;

/// A message, what would help, and the exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    status: u8,
    /// The HTTP status of the answer, when there was one.
    answered: Option<u16>,
    /// No connection was made.
    unreached: bool,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, status: 1, answered: None, unreached: false }
    }

    /// A fault of the command line itself.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { status: 2, ..Self::new(message) }
    }

    pub(crate) fn io(action: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::new(format!("failed to {action}: {error}"))
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Ends the command with nothing more to say: its output says it all, or nobody reads it any more.
    pub(crate) fn silent(status: u8) -> Self {
        Self { status, ..Self::new("") }
    }

    pub(crate) fn status(&self) -> u8 {
        self.status
    }

    /// Whether the server answered that it does not know the route or the object.
    pub(crate) fn is_not_found(&self) -> bool {
        self.answered == Some(404)
    }

    /// Whether asking again may help: nothing was answered, or the server said that it cannot just now.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.answered, None | Some(502..=504))
    }

    /// No server is there.
    pub(crate) fn unreached(message: impl Into<String>) -> Self {
        Self { unreached: true, ..Self::new(message) }
    }

    /// Whether no server was there.
    pub(crate) fn is_unreached(&self) -> bool {
        self.unreached
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// What an answer that is not 2xx says. `body` need not be an envelope: something between may have answered.
    pub(crate) fn answered(status: reqwest::StatusCode, body: &[u8]) -> Self {
        let mut failure = match serde_json::from_slice::<ErrorEnvelope>(body) {
            Ok(ErrorEnvelope { error }) => {
                let place = error.param.map(|param| format!(" (`{param}`)")).unwrap_or_default();
                let mut failure = Self::new(format!("{}{place}", super::super::console::printable(&error.message)));
                failure.hint = error.hint.or_else(|| hint_for(&error.code).map(str::to_owned));
                failure
            }
            Err(_) => Self::new(format!("the server answered {status} without saying why"))
                .hint("is the address that of a Stead server? `--url` names another"),
        };
        failure.answered = Some(status.as_u16());
        failure
    }
}

fn hint_for(code: &str) -> Option<&'static str> {
    Some(match code {
        "missing_credential" | "credential_missing" => {
            "give a key with --key, --key-file or STEAD_KEY; the server wrote the first one to `admin.key` in its data directory"
        }
        "invalid_credential" | "credential_invalid" => "the key may be of another server, or revoked",
        "insufficient_scope" | "scope_insufficient" => {
            "`stead key create NAME --verb …` makes a key that may, with an admin key"
        }
        "environment_not_ready" => {
            "`stead project build PROJECT` builds it, `stead project versions PROJECT` says what there is"
        }
        "environment_busy" => {
            "`stead project log PROJECT` follows the running build, `stead project cancel PROJECT` ends it"
        }
        "session_busy" => "wait for the running task, or start another session",
        "environment_exists" => "two projects cannot have one mount path; choose another name",
        _ => return None,
    })
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n\nhint: {hint}"),
            None => Ok(()),
        }
    }
}
