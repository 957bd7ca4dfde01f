//! What stands around every face: the Host check, the request id, the log line, the security headers, and the last resort
//! when a handler panics.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use stead_domain::ports::IdSource;
use tracing::Instrument;

use super::hosts::{Hosts, Verdict};
use super::request::is_uhp;
use crate::adapters::RandomIds;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Nothing that Stead serves is to be framed, sniffed, cached by default, or run in its origin.
const SECURITY: [(HeaderName, &str); 5] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; sandbox"),
    (CACHE_CONTROL, "no-store"),
];

/// Passes a request on to the faces.
pub(super) async fn gate(State(hosts): State<Arc<Hosts>>, request: Request, next: Next) -> Response {
    let id = RandomIds.uuid_v7().simple().to_string();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let uhp = is_uhp(&path);
    let span = tracing::info_span!("request", request.id = id);
    let began = Instant::now();
    let answering = async {
        match judge(&hosts, &request) {
            Verdict::Allowed => match AssertUnwindSafe(next.run(request)).catch_unwind().await {
                Ok(response) => response,
                Err(panic) => {
                    tracing::error!(panic = words(panic.as_ref()), http.path = path, "a handler panicked");
                    let message = "the server failed to carry this out";
                    refusal(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "internal", message, &id)
                }
            },
            Verdict::Foreign => {
                let message =
                    "this server is not addressed by that name; `server.hosts` in its configuration lists names";
                refusal(StatusCode::MISDIRECTED_REQUEST, "invalid_request_error", "invalid_input", message, &id)
            }
            Verdict::Malformed => {
                let message = "the request needs one well-formed Host header";
                refusal(StatusCode::BAD_REQUEST, "invalid_request_error", "invalid_input", message, &id)
            }
        }
    };
    let mut response = answering.instrument(span.clone()).await;
    adorn(response.headers_mut(), &id, uhp);
    let (status, duration_ms) = (response.status().as_u16(), began.elapsed().as_millis() as u64);
    span.in_scope(|| {
        tracing::debug!(http.method = %method, http.path = path, http.status = status, duration_ms, "answered");
    });
    response
}

fn judge(hosts: &Hosts, request: &Request) -> Verdict {
    // An absolute request target outranks the header (RFC 9112 §3.2.2), so both must be right.
    if let Some(authority) = request.uri().authority()
        && hosts.judge(authority.as_str()) != Verdict::Allowed
    {
        return hosts.judge(authority.as_str());
    }
    let mut headers = request.headers().get_all(HOST).iter();
    match (headers.next().map(HeaderValue::to_str), headers.next()) {
        (Some(Ok(host)), None) => hosts.judge(host),
        _ => Verdict::Malformed,
    }
}

fn adorn(headers: &mut HeaderMap, id: &str, uhp: bool) {
    for (name, value) in SECURITY {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, value);
    }
    if uhp {
        let version = HeaderValue::from_static(stead_face_uhp::VERSION);
        headers.entry(HeaderName::from_static("uhp-version")).or_insert(version);
    }
}

fn refusal(status: StatusCode, kind: &str, code: &str, message: &str, id: &str) -> Response {
    let error = serde_json::json!({
        "error": {"type": kind, "code": code, "message": message, "param": null, "detail": {"request_id": id}}
    });
    let mut response = Response::new(Body::from(error.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}
