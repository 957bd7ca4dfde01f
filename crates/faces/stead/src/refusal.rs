//! Errors of the core as answers of this face.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use stead_domain::{Code, Error, ErrorKind};
use stead_engine::RequestRecord;

use crate::wire::{ErrorBody, ErrorEnvelope};

/// A refusal, ready to be sent.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    body: Box<ErrorBody>,
}

pub(crate) type Answer<T> = Result<T, Refusal>;

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        let body = ErrorBody {
            kind: kind_of(status).to_owned(),
            code: code.to_owned(),
            message: message.into(),
            param: None,
            detail: None,
            hint: None,
        };
        Self { status, body: Box::new(body) }
    }

    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.body.hint = Some(hint.to_owned());
        self
    }
}

/// The refusal of one more stream where as many are open as may be.
pub(crate) fn too_many_streams() -> Refusal {
    let message = "as many streams are open as may be; close some";
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message)
}

fn kind_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    }
}

fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::Denied => StatusCode::FORBIDDEN,
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::TooMany => StatusCode::TOO_MANY_REQUESTS,
        ErrorKind::Unsupported => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn hint_for(code: Code) -> Option<&'static str> {
    match code {
        Code::CredentialMissing => Some("send `Authorization: Bearer <key>`"),
        Code::ScopeInsufficient => Some(
            "a key with the verb `admin` can make a key with the verb it needs; for `operator` it must have that verb itself",
        ),
        Code::ProjectBusy => Some("wait for the running build, or cancel it"),
        _ => None,
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = status_of(error.kind());
        if status.is_server_error() {
            let cause = error.cause.as_ref().map(|cause| chain(cause.as_ref())).unwrap_or_default();
            tracing::error!(error.code = error.code.as_str(), error.cause = cause, "{}", error.message);
        } else {
            // Its message may quote what the caller sent.
            tracing::debug!(error.code = error.code.as_str(), "refused");
        }
        let mut refusal = Self::new(status, error.code.as_str(), error.message);
        refusal.body.param = error.param;
        refusal.body.detail = error.detail;
        if status.is_server_error()
            && let Some(record) = RequestRecord::current()
            && let detail @ Value::Object(_) = refusal.body.detail.get_or_insert_with(|| json!({}))
        {
            detail["request_id"] = json!(record.id());
        }
        refusal.body.hint = hint_for(error.code).map(str::to_owned);
        refusal
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorEnvelope { error: *self.body })).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_status_of_its_kind_and_hides_its_cause() {
        for &code in Code::ALL {
            let cause = std::io::Error::other("the secret cause");
            let refusal = Refusal::from(Error::new(code, "sentence").because(cause));
            assert!(refusal.status.is_client_error() || refusal.status.is_server_error(), "{code:?}");
            let text = serde_json::to_string(&*refusal.body).unwrap();
            assert!(!text.contains("secret cause"), "{text}");
            assert_eq!(refusal.body.code, code.as_str());
        }
        assert_eq!(Refusal::from(Error::new(Code::ScopeInsufficient, "x")).status, StatusCode::FORBIDDEN);
        assert_eq!(Refusal::from(Error::new(Code::BuildNotFound, "x")).status, StatusCode::NOT_FOUND);
    }
}
