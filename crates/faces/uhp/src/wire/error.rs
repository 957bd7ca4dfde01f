//! The error envelope (UHP §5).

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The body of every answer that is not 2xx.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ErrorEnvelope {
    /// What went wrong.
    pub error: ErrorObject,
}

/// What went wrong: in an envelope for a failed request, in a response for a failed task. All five keys are always there.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ErrorObject {
    /// The sort of fault.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The machine-readable code; ours carry the prefix `stead_`.
    pub code: &'static str,
    /// One safe sentence.
    pub message: String,
    /// The field at fault, dotted.
    pub param: Option<String>,
    /// Structured facts.
    pub detail: Option<Value>,
}
