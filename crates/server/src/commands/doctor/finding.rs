//! One thing looked at, and how it stands.

use serde::Serialize;

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    Good,
    Partial,
    Missing,
}

/// One thing looked at.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    pub(crate) name: String,
    pub(crate) standing: Standing,
    /// Whether the server cannot work without it.
    pub(crate) required: bool,
    pub(crate) explanation: String,
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn good(name: &str, explanation: impl Into<String>) -> Self {
        let (standing, required) = (Standing::Good, false);
        Self { name: name.to_owned(), standing, required, explanation: explanation.into(), fix: None }
    }

    pub(crate) fn partial(name: &str, explanation: impl Into<String>, fix: Option<String>) -> Self {
        Self { standing: Standing::Partial, fix, ..Self::good(name, explanation) }
    }

    pub(crate) fn missing(name: &str, required: bool, explanation: impl Into<String>, fix: Option<String>) -> Self {
        Self { standing: Standing::Missing, required, fix, ..Self::good(name, explanation) }
    }

    /// Whether the server cannot work because of it.
    pub(super) fn is_obstacle(&self) -> bool {
        self.required && self.standing == Standing::Missing
    }
}
