//! Why a command did not succeed, in words for people.

use std::fmt;

use serde_json::{Value, json};
use stead_face_stead::wire::{ErrorEnvelope, FrameError};

use super::words;
use crate::console::printable;

/// The exit status of `stead run` when it is Stead that failed and not the command.
pub(crate) const OF_STEAD: u8 = 125;

/// A message, what would help, and the exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    status: u8,
    /// A stable word for programs: the server's, or one of the client's own.
    code: String,
    /// The HTTP status of the answer, when there was one.
    answered: Option<u16>,
    /// The facts that the answer gave.
    detail: Option<Box<Value>>,
    /// The session that a failed `stead run` left.
    session: Option<String>,
}

/// The client's own codes.
const FAILED: &str = "failed";
const USAGE: &str = "usage";
const UNREACHABLE: &str = "unreachable";

impl From<FrameError> for Failure {
    fn from(error: FrameError) -> Self {
        Self::new(format!("the server sent output that cannot be read: {error}"))
    }
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            status: 1,
            code: FAILED.to_owned(),
            answered: None,
            detail: None,
            session: None,
        }
    }

    /// A fault of the command line itself.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { status: 2, ..Self::new(message).coded(USAGE) }
    }

    /// No server is there.
    pub(crate) fn unreached(message: impl Into<String>) -> Self {
        Self::new(message).coded(UNREACHABLE)
    }

    pub(crate) fn io(action: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::new(format!("failed to {action}: {error}"))
    }

    /// Ends the command with nothing more to say: its output says it all, or nobody reads it any more.
    pub(crate) fn silent(status: u8) -> Self {
        Self { status, ..Self::new("") }
    }

    /// What an answer that is not 2xx says. `body` need not be an envelope: something between may have answered.
    pub(crate) fn answered(status: reqwest::StatusCode, body: &[u8]) -> Self {
        let mut failure = match serde_json::from_slice::<ErrorEnvelope>(body) {
            Ok(ErrorEnvelope { error }) => {
                let mut message = words::sentence(&error.code, &printable(&error.message));
                // What else a parameter names are fields of requests, which people did not write.
                if let Some(param) = error.param.filter(|_| error.code == "invalid_input") {
                    message = format!("{message} (`{}`)", printable(&param));
                }
                if error.code == "quota_exhausted" {
                    message = error.detail.as_ref().and_then(words::quota).unwrap_or(message);
                }
                let mut failure = Self::new(message).coded(&error.code);
                failure.hint = words::hint(&error.code).map(str::to_owned).or(error.hint);
                failure.detail = error.detail.map(Box::new);
                failure
            }
            Err(_) => Self::new(format!("the server answered {status} without saying why"))
                .hint("is the address that of a Stead server? `--url` names another"),
        };
        failure.answered = Some(status.as_u16());
        failure
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn coded(mut self, code: &str) -> Self {
        code.clone_into(&mut self.code);
        self
    }

    /// The same with another sentence.
    pub(crate) fn said(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// The same with what helps for this project, by its code.
    pub(crate) fn about(self, slug: &str) -> Self {
        match words::hint_for_project(&self.code, slug) {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// As `stead run` ends with it: its status is not to be taken for the command's.
    pub(crate) fn of_run(mut self, session: Option<&str>) -> Self {
        if self.status == 1 {
            self.status = OF_STEAD;
        }
        self.session = session.map(str::to_owned).or(self.session);
        self
    }

    pub(crate) fn status(&self) -> u8 {
        self.status
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// A number among the facts that the answer gave.
    pub(crate) fn fact(&self, name: &str) -> Option<u64> {
        self.detail.as_ref()?.get(name)?.as_u64()
    }

    /// Whether the server answered that it does not know the route or the object.
    pub(crate) fn is_not_found(&self) -> bool {
        self.answered == Some(404)
    }

    /// Whether the server said this itself.
    pub(crate) fn has_answer(&self) -> bool {
        self.answered.is_some()
    }

    /// Whether asking again may help: nothing was answered, or the server said that it cannot just now.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.answered, None | Some(502..=504))
    }

    /// Whether no server was there.
    pub(crate) fn is_unreached(&self) -> bool {
        self.code == UNREACHABLE
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// For `--json`: one object, `{"error":{…}}`.
    pub(crate) fn json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        let members = [
            ("hint", self.hint.clone().map(Value::from)),
            ("http_status", self.answered.map(Value::from)),
            ("session", self.session.clone().map(Value::from)),
            ("detail", self.detail.as_deref().cloned()),
        ];
        for (name, value) in members {
            if let Some(value) = value {
                error[name] = value;
            }
        }
        json!({ "error": error })
    }
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
