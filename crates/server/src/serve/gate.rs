//! What stands around every face: the Host check, the request id in requests and answers, the security headers, and the last
//! resort when a handler panics.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, EXPECT, HOST, REFERRER_POLICY, RETRY_AFTER,
    TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use stead_engine::RequestRecord;

use super::hosts::{Hosts, Verdict};
use super::observed::REQUEST_ID;
use super::request::{is_health, is_uhp};
use crate::adapters::RandomIds;

/// Nothing that Stead serves is to be framed, sniffed, cached by default, or run in its origin.
const SECURITY: [(HeaderName, &str); 5] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; sandbox"),
    (CACHE_CONTROL, "no-store"),
];

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Passes a request on to the faces, under the id that it has within [`observe`](super::observed::observe): an answer, its header
/// and the log speak of one id.
pub(super) async fn gate(State(hosts): State<Arc<Hosts>>, mut request: Request, next: Next) -> Response {
    let record = RequestRecord::current().unwrap_or_else(|| RequestRecord::new(None, &RandomIds));
    let id = record.id();
    name(request.headers_mut(), id);
    let path = request.uri().path();
    let uhp = is_uhp(path);
    // A probe may use whatever address it finds, and there is nothing behind it to protect.
    let verdict = if is_health(path) { Verdict::Allowed } else { judge(&hosts, &request) };
    let mut response = match verdict {
        Verdict::Allowed if target_length(&request) > LONGEST_TARGET => {
            let message = "the target of the request is too long";
            refusal(StatusCode::URI_TOO_LONG, "invalid_request_error", "stead_target_too_long", message, id)
        }
        Verdict::Allowed if expects_more(&request) => {
            let message = "nothing but `100-continue` can be expected";
            refusal(StatusCode::EXPECTATION_FAILED, "invalid_request_error", "invalid_input", message, id)
        }
        Verdict::Allowed if frames_otherwise(request.headers()) => {
            let message = "no transfer coding but `chunked` is understood";
            refusal(StatusCode::NOT_IMPLEMENTED, "invalid_request_error", "invalid_input", message, id)
        }
        Verdict::Allowed if is_encoded(request.headers()) => {
            let message = "bodies are taken as they are; no `Content-Encoding` is understood";
            refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request_error", "invalid_input", message, id)
        }
        Verdict::Allowed if request.headers().get_all(IDEMPOTENCY_KEY).iter().count() > 1 => {
            let message = "there is more than one `Idempotency-Key`";
            refusal(StatusCode::BAD_REQUEST, "invalid_request_error", "invalid_input", message, id)
        }
        Verdict::Allowed => match AssertUnwindSafe(next.run(request)).catch_unwind().await {
            Ok(response) => response,
            Err(panic) => {
                tracing::error!(panic = words(panic.as_ref()), http.route = record.route(), "a handler panicked");
                let message = "the server failed to carry this out";
                // UHP's own codes do not cover this, and others of its answers have a prefix (UHP §5).
                let code = if uhp { "stead_internal" } else { "internal" };
                refusal(StatusCode::INTERNAL_SERVER_ERROR, "server_error", code, message, id)
            }
        },
        Verdict::Foreign => {
            let message = "this server is not addressed by that name; `server.hosts` in its configuration lists names";
            refusal(StatusCode::MISDIRECTED_REQUEST, "invalid_request_error", "invalid_input", message, id)
        }
        Verdict::Malformed => {
            let message = "the request needs one well-formed Host header";
            refusal(StatusCode::BAD_REQUEST, "invalid_request_error", "invalid_input", message, id)
        }
    };
    adorn(response.headers_mut(), id, uhp);
    response
}

/// The refusal of new work while there is no room on the disk for more than what ends and removes.
pub(super) fn without_room(path: &str) -> Response {
    let id = RequestRecord::current().map(|record| record.id().to_owned()).unwrap_or_default();
    let code = if is_uhp(path) { "environment_unavailable" } else { "backend_unavailable" };
    let message = "no room is left on the server's disk, so only what ends or removes something is carried out; its operator can \
                   make room, or sessions and projects can be deleted";
    let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, "server_error", code, message, &id);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
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

fn target_length(request: &Request) -> usize {
    request.uri().path_and_query().map_or(0, |target| target.as_str().len())
}

/// Whether the request expects something that is not served (RFC 9110 §10.1.1).
fn expects_more(request: &Request) -> bool {
    request.headers().get_all(EXPECT).iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Whether a body is framed in a way that is not served (RFC 9112 §6.1).
fn frames_otherwise(headers: &HeaderMap) -> bool {
    headers.get_all(TRANSFER_ENCODING).iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"chunked"))
}

/// Whether a body is not what it stands for (RFC 9110 §8.4).
fn is_encoded(headers: &HeaderMap) -> bool {
    let plain = |value: &HeaderValue| value.is_empty() || value.as_bytes().eq_ignore_ascii_case(b"identity");
    !headers.get_all(CONTENT_ENCODING).iter().all(plain)
}

fn name(headers: &mut HeaderMap, id: &str) {
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, value);
    }
}

fn adorn(headers: &mut HeaderMap, id: &str, uhp: bool) {
    for (name, value) in SECURITY {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    name(headers, id);
    if uhp {
        let version = HeaderValue::from_static(stead_face_uhp::VERSION);
        headers.entry(HeaderName::from_static("uhp-version")).or_insert(version);
    }
}

fn refusal(status: StatusCode, kind: &str, code: &str, message: &str, id: &str) -> Response {
    let mut response = Response::new(Body::from(envelope(kind, code, message, id)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    response
}

/// The longest target of a request, in bytes.
const LONGEST_TARGET: usize = 16 << 10;

/// The whole answer to what is no request, so that nothing of it can be known: neither its face nor who asks.
pub(super) fn refusal_of_no_request(status: StatusCode) -> Bytes {
    let record = RequestRecord::new(None, &RandomIds);
    let (code, message) = match status {
        StatusCode::URI_TOO_LONG => ("stead_target_too_long", "the target of the request is too long"),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            ("stead_head_too_large", "the head of the request is larger than 64 KiB or has more than 100 fields")
        }
        _ => ("invalid_input", "this is no request of HTTP/1.1"),
    };
    let mut response = refusal(status, "invalid_request_error", code, message, record.id());
    adorn(response.headers_mut(), record.id(), true);
    let reason = status.canonical_reason().unwrap_or("Refused");
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\nconnection: close\r\n", status.as_u16()).into_bytes();
    for (name, value) in response.headers() {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    let body = envelope("invalid_request_error", code, message, record.id());
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
    bytes.into()
}

fn envelope(kind: &str, code: &str, message: &str, id: &str) -> String {
    let error = serde_json::json!({
        "error": {"type": kind, "code": code, "message": message, "param": null, "detail": {"request_id": id}}
    });
    error.to_string()
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use axum::{Router, middleware};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::super::observed::observe;
    use super::*;

    async fn answer(path: &str) -> (Response, String) {
        let hosts = Arc::new(Hosts::new("127.0.0.1:1".parse().unwrap(), &[]));
        let echo = |headers: HeaderMap| async move { headers[REQUEST_ID].to_str().unwrap().to_owned() };
        async fn fail() {
            panic!("no luck");
        }
        let app = Router::new().route("/v1/echo", get(echo)).route("/v1/fail", get(fail)).route("/fail", get(fail));
        let app = app.layer(middleware::from_fn_with_state(hosts, gate)).layer(middleware::from_fn(observe));
        let request = Request::builder().uri(path).header(HOST, "localhost").header(REQUEST_ID, "theirs");
        let (parts, body) = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap().into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        (Response::from_parts(parts, Body::empty()), text)
    }

    #[tokio::test]
    async fn the_face_and_the_answer_know_a_request_by_one_id() {
        let (response, seen) = answer("/v1/echo").await;
        assert_eq!(response.headers()[REQUEST_ID], seen);
        assert_eq!(seen, "theirs");
    }

    #[tokio::test]
    async fn a_panic_is_an_answer_in_the_words_of_its_face() {
        for (path, code) in [("/v1/fail", "stead_internal"), ("/fail", "internal")] {
            let (response, body) = answer(path).await;
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            let body: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!(body["error"]["code"], code);
            assert_eq!(body["error"]["detail"]["request_id"], response.headers()[REQUEST_ID].to_str().unwrap());
            assert_eq!(response.headers().contains_key("uhp-version"), path.starts_with("/v1"));
        }
    }
}
