//! Refusals as UHP says them (UHP §5): the one place that knows status, type and code of each.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use stead_domain::{Code, Error};

use crate::reply;
use crate::wire::error::{ErrorEnvelope, ErrorObject};

/// A refused request.
#[derive(Debug, Clone)]
pub(crate) struct Failure(Box<Refusal>);

#[derive(Debug, Clone)]
struct Refusal {
    error: Error,
    words: Words,
    /// The length of the file that has not what was asked for.
    length: Option<u64>,
}

/// How UHP says a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Words {
    status: StatusCode,
    kind: &'static str,
    code: &'static str,
}

const INVALID: &str = "invalid_request_error";
const SERVER: &str = "server_error";

/// The table. Codes that UHP does not have carry our prefix.
fn words(code: Code) -> Words {
    let (status, kind, code) = match code {
        Code::InvalidInput => (400, INVALID, "invalid_input"),
        Code::Unsupported => (422, INVALID, "stead_unsupported"),
        Code::AgentNotFound => (404, INVALID, "harness_not_found"),
        Code::SessionNotFound => (404, INVALID, "session_not_found"),
        Code::TurnNotFound => (404, INVALID, "response_not_found"),
        Code::FileNotFound => (404, INVALID, "file_not_found"),
        Code::ProjectNotFound => (404, INVALID, "environment_not_found"),
        Code::BuildNotFound => (404, INVALID, "stead_build_not_found"),
        Code::KeyNotFound => (404, INVALID, "stead_key_not_found"),
        Code::WorkspaceNotFound => (404, INVALID, "stead_workspace_not_found"),
        Code::AgentMismatch => (409, INVALID, "harness_mismatch"),
        Code::SessionBusy => (409, INVALID, "session_busy"),
        Code::ProjectExists => (409, INVALID, "environment_exists"),
        Code::ProjectBusy => (409, INVALID, "environment_busy"),
        Code::WorkspaceExists => (409, INVALID, "stead_workspace_exists"),
        Code::VersionInUse => (409, INVALID, "stead_version_in_use"),
        Code::ProjectNotReady => (409, INVALID, "environment_not_ready"),
        Code::ProjectInvalid => (422, INVALID, "environment_invalid"),
        Code::HarnessUnsupported => (422, INVALID, "unsupported_base"),
        Code::ModelUnavailable => (422, INVALID, "model_unavailable"),
        Code::PreconditionFailed => (412, INVALID, "stead_precondition_failed"),
        Code::QuotaExhausted => (429, "rate_limit_error", "quota_exhausted"),
        Code::FileTooLarge => (413, INVALID, "file_too_large"),
        Code::CredentialMissing => (401, "authentication_error", "missing_credential"),
        Code::CredentialInvalid => (401, "authentication_error", "invalid_credential"),
        Code::ScopeInsufficient => (403, "permission_error", "insufficient_scope"),
        Code::CapacityExhausted => (503, SERVER, "harness_unavailable"),
        Code::ContentsDamaged => (500, SERVER, "stead_contents_damaged"),
        Code::BackendUnavailable => (503, SERVER, "environment_unavailable"),
        Code::Internal => (500, SERVER, "stead_internal"),
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Words { status, kind, code }
}

/// The code that UHP has for a fault, for faults that are reported inside a stream.
pub(crate) fn code(error: &Error) -> &'static str {
    words(error.code).code
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let words = words(error.code);
        Self::new(error, words)
    }
}

impl Failure {
    fn new(error: Error, words: Words) -> Self {
        Self(Box::new(Refusal { error, words, length: None }))
    }

    /// The file of `length` bytes has none in the range that was asked for (RFC 9110 §15.5.17).
    pub(crate) fn range_beyond(length: u64) -> Self {
        let words =
            Words { status: StatusCode::RANGE_NOT_SATISFIABLE, kind: INVALID, code: "stead_range_unsatisfiable" };
        let message = format!("the file has {length} bytes, and none of them in this range");
        let mut failure = Self::new(Error::invalid("Range", message), words);
        failure.0.length = Some(length);
        failure
    }

    /// The body comes in a coding that is not taken off here (RFC 9110 §8.4, §15.5.16).
    pub(crate) fn encoded_body(coding: &str) -> Self {
        let words = Words {
            status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
            kind: INVALID,
            code: "stead_content_encoding_unsupported",
        };
        let shown: String = coding.chars().take(40).collect();
        let message =
            format!("`Content-Encoding: {shown}` is not taken off here; send the bytes as they are to be kept");
        Self::new(Error::invalid("Content-Encoding", message), words)
    }

    /// As many streams are open as may be.
    pub(crate) fn too_many_streams() -> Self {
        let words = Words { status: StatusCode::TOO_MANY_REQUESTS, kind: "rate_limit_error", code: "rate_limited" };
        let message = "as many streams are open as may be; close some, or read the response instead";
        Self::new(Error::new(Code::CapacityExhausted, message), words)
    }

    /// The event is one that was folded away, so that nobody can tell any more what followed it.
    pub(crate) fn expired_event() -> Self {
        let words = Words { status: StatusCode::GONE, kind: INVALID, code: "stead_event_expired" };
        let message =
            "the task has ended and the pieces of its text are gone; go on behind an event's id, or read the response";
        Self::new(Error::invalid("Last-Event-ID", message), words)
    }

    /// No route has this path.
    pub(crate) fn unknown_route() -> Self {
        let words = Words { status: StatusCode::NOT_FOUND, kind: INVALID, code: "stead_unknown_route" };
        Self::new(Error::new(Code::FileNotFound, "there is nothing at this path"), words)
    }

    /// The route does not take this method.
    pub(crate) fn wrong_method() -> Self {
        let words = Words { status: StatusCode::METHOD_NOT_ALLOWED, kind: INVALID, code: "stead_method_not_allowed" };
        Self::new(Error::new(Code::InvalidInput, "this path does not take this method"), words)
    }

    /// No model has this id.
    pub(crate) fn unknown_model() -> Self {
        let words = Words { status: StatusCode::NOT_FOUND, kind: INVALID, code: "stead_model_not_found" };
        Self::new(Error::new(Code::FileNotFound, "there is no such model").at("model"), words)
    }

    /// Previews are not made here.
    pub(crate) fn no_preview() -> Self {
        let words = Words { status: StatusCode::NOT_IMPLEMENTED, kind: SERVER, code: "preview_unavailable" };
        Self::new(Error::new(Code::Unsupported, "this server renders no previews; download the file"), words)
    }

    /// The same refusal under a code of its own.
    pub(crate) fn coded(mut self, code: &'static str) -> Self {
        self.0.words.code = code;
        self
    }

    /// The same refusal as one of a wrong parameter.
    pub(crate) fn bad_request(mut self) -> Self {
        self.0.words.status = StatusCode::BAD_REQUEST;
        self
    }

    /// Writes what callers do not see to the log, and gives them the request id to ask about. For faults of the server only.
    pub(crate) fn traced(mut self, request_id: &str) -> Self {
        if !self.0.words.status.is_server_error() {
            return self;
        }
        if let Some(cause) = &self.0.error.cause {
            let mut chain = cause.to_string();
            let mut next = cause.source();
            while let Some(source) = next {
                chain.push_str(": ");
                chain.push_str(&source.to_string());
                next = source.source();
            }
            let code = self.0.error.code.as_str();
            tracing::error!(error.code = code, error.cause = chain, "a request failed");
        }
        match &mut self.0.error.detail {
            Some(Value::Object(detail)) => {
                detail.insert("request_id".to_owned(), json!(request_id));
            }
            Some(_) => {}
            detail => *detail = Some(json!({ "request_id": request_id })),
        }
        self
    }

    /// The answer, with its body.
    pub(crate) fn render(self) -> Response {
        let Refusal { error, words, length } = *self.0;
        let body = ErrorEnvelope {
            error: ErrorObject {
                kind: words.kind,
                code: words.code,
                message: crate::words::sentence(&error.message),
                param: error.param.map(|param| crate::words::field(&param).to_owned()),
                detail: error.detail,
            },
        };
        // An envelope is made of text and JSON values, which can always be written.
        let mut response = reply::json(words.status, &body).unwrap_or_else(|_| words.status.into_response());
        let headers = response.headers_mut();
        if let Some(Ok(range)) = length.map(|length| HeaderValue::from_str(&format!("bytes */{length}"))) {
            headers.insert(header::CONTENT_RANGE, range);
        }
        if words.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if words.status == StatusCode::SERVICE_UNAVAILABLE || words.code == "rate_limited" {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl IntoResponse for Failure {
    /// The body is written when the request id is known, by [`request_id::layer`](crate::request_id::layer): until then the
    /// refusal itself travels along.
    fn into_response(self) -> Response {
        let mut response = self.0.words.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use stead_domain::ErrorKind;

    use super::*;

    #[test]
    fn every_code_of_the_core_has_its_words() {
        let mut seen = HashSet::new();
        for code in Code::ALL.iter().copied() {
            let words = words(code);
            let expected: &[u16] = match code.kind() {
                ErrorKind::Invalid => &[400, 422],
                ErrorKind::NotFound => &[404],
                ErrorKind::Conflict => &[409, 412],
                ErrorKind::Denied => &[403],
                ErrorKind::Unauthenticated => &[401],
                ErrorKind::TooLarge => &[413],
                ErrorKind::TooMany => &[429],
                ErrorKind::Unsupported => &[422],
                ErrorKind::Unavailable => &[503],
                ErrorKind::Internal => &[500],
            };
            assert!(expected.contains(&words.status.as_u16()), "{code:?} is {}", words.status);
            assert!(seen.insert(words.code), "{code:?} shares `{}`", words.code);
            let kind = match words.status.as_u16() {
                401 => "authentication_error",
                403 => "permission_error",
                429 => "rate_limit_error",
                500.. => "server_error",
                _ => "invalid_request_error",
            };
            assert_eq!(words.kind, kind, "{code:?}");
        }
    }

    #[test]
    fn faults_of_the_server_name_the_request_and_hide_the_cause() {
        let cause = std::io::Error::other("secret path");
        let failure = Failure::from(Error::internal(cause)).traced("req_1");
        assert_eq!(failure.0.error.detail, Some(json!({"request_id": "req_1"})));
        assert!(!failure.0.error.message.contains("secret"));
        let plain = Failure::from(Error::invalid("a", "b")).traced("req_1");
        assert_eq!(plain.0.error.detail, None);
    }
}
