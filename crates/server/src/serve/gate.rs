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

/// Passes a request on to the faces, with its id in place of whatever the caller sent: an answer, its header and the log
/// speak of one id.
pub(super) async fn gate(State(hosts): State<Arc<Hosts>>, mut request: Request, next: Next) -> Response {
    let id = RandomIds.uuid_v7().simple().to_string();
    name(request.headers_mut(), &id);
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
                    // UHP's own codes do not cover this, and others of its answers have a prefix (UHP §5).
                    let code = if uhp { "stead_internal" } else { "internal" };
                    refusal(StatusCode::INTERNAL_SERVER_ERROR, "server_error", code, message, &id)
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
    let error = serde_json::json!({
        "error": {"type": kind, "code": code, "message": message, "param": null, "detail": {"request_id": id}}
    });
    let mut response = Response::new(Body::from(error.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    response
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

    use super::*;

    async fn answer(path: &str) -> (Response, String) {
        let hosts = Arc::new(Hosts::new("127.0.0.1:1".parse().unwrap(), &[]));
        let echo = |headers: HeaderMap| async move { headers[REQUEST_ID].to_str().unwrap().to_owned() };
        async fn fail() {
            panic!("no luck");
        }
        let app = Router::new().route("/v1/echo", get(echo)).route("/v1/fail", get(fail)).route("/fail", get(fail));
        let app = app.layer(middleware::from_fn_with_state(hosts, gate));
        let request = Request::builder().uri(path).header(HOST, "localhost").header(REQUEST_ID, "theirs");
        let (parts, body) = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap().into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        (Response::from_parts(parts, Body::empty()), text)
    }

    #[tokio::test]
    async fn the_face_and_the_answer_know_a_request_by_one_id() {
        let (response, seen) = answer("/v1/echo").await;
        assert_eq!(response.headers()[REQUEST_ID], seen);
        assert_ne!(seen, "theirs");
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
