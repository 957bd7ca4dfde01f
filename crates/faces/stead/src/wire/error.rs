//! Errors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body of every answer that is not 2xx.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorEnvelope {
    /// What went wrong.
    pub error: ErrorBody,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// The sort of fault, as UHP names it: `invalid_request_error`, `authentication_error`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The stable code.
    pub code: String,
    /// One safe sentence.
    pub message: String,
    /// The field at fault, dotted.
    #[serde(default)]
    pub param: Option<String>,
    /// Structured facts.
    #[serde(default)]
    pub detail: Option<Value>,
    /// What would help, when that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
