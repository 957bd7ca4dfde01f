//! What there is to say of each request: its id, one log line when it is over, and its numbers.
//!
//! This is the outermost layer. It makes the one id that the answer, every log line and the audit log know the request by, and
//! it sees a request's whole life: the line is written when the last byte of the answer is gone, or when the client is. It names
//! the route and never the path, and nothing that a caller sent besides an id it may have chosen.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, Method, StatusCode};
use http_body::{Frame, SizeHint};
use stead_engine::RequestRecord;
use tracing::{Instrument, Span};

use crate::adapters::RandomIds;

/// The header that carries the id to and fro.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What stands for every path that no route has.
const NO_ROUTE: &str = "none";

/// Answers within the request's scope and span, and says of it what there is to say once it is over.
pub(super) async fn observe(request: Request, next: Next) -> Response {
    let mut chosen = request.headers().get_all(REQUEST_ID).iter();
    let only = chosen.next().filter(|_| chosen.next().is_none());
    let record = RequestRecord::new(only.and_then(|value| value.to_str().ok()), &RandomIds);
    let span = tracing::info_span!("request", request.id = record.id());
    let received = Arc::new(AtomicU64::new(0));
    let mut life = Life::begin(Arc::clone(&record), request.method(), span.clone(), Arc::clone(&received));
    let request = request.map(|body| Body::new(Received { body, bytes: received }));
    let response = record.scope(next.run(request)).instrument(span).await;
    life.answered(response.status());
    response.map(|body| Body::new(Sent { body, life }))
}

/// A request from its beginning to its end, which is when this is dropped.
struct Life {
    record: Arc<RequestRecord>,
    method: &'static str,
    span: Span,
    began: Instant,
    received: Arc<AtomicU64>,
    sent: u64,
    /// None while there is no answer.
    status: Option<StatusCode>,
    /// Whether the answer was taken to its end.
    whole: bool,
}

/// One of a few words: a caller may make up methods.
fn word(method: &Method) -> &'static str {
    const KNOWN: [Method; 7] =
        [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
    const WORDS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    KNOWN.iter().position(|known| known == method).map_or("OTHER", |at| WORDS[at])
}

impl Life {
    fn begin(record: Arc<RequestRecord>, method: &Method, span: Span, received: Arc<AtomicU64>) -> Self {
        metrics::gauge!("stead_http_requests_in_flight").increment(1.0);
        let began = Instant::now();
        Self { record, method: word(method), span, began, received, sent: 0, status: None, whole: false }
    }

    fn route(&self) -> String {
        self.record.route().unwrap_or(NO_ROUTE).to_owned()
    }

    fn answered(&mut self, status: StatusCode) {
        self.status = Some(status);
        let seconds = self.began.elapsed().as_secs_f64();
        let labels = [("method", self.method.to_owned()), ("route", self.route())];
        metrics::histogram!("stead_http_request_duration_seconds", &labels).record(seconds);
        let refused = match status {
            StatusCode::UNAUTHORIZED => "credential",
            StatusCode::FORBIDDEN => "scope",
            StatusCode::MISDIRECTED_REQUEST => "host",
            _ => return,
        };
        metrics::counter!("stead_http_refusals_total", "reason" => refused).increment(1);
    }

    /// The line. What fails is a warning; what changes something or is refused for who asks is worth a line; reads are for those
    /// who look closer.
    fn tell(&self) {
        let (workspace, key) = self.record.caller().unzip();
        let (workspace, key) = (workspace.map(tracing::field::display), key.map(tracing::field::display));
        let (route, status) = (self.route(), self.status.map(|status| status.as_u16()));
        let duration_ms = self.began.elapsed().as_millis() as u64;
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    parent: &self.span,
                    http.method = self.method,
                    http.route = route,
                    http.status = status,
                    duration_ms,
                    bytes_received = self.received.load(Ordering::Relaxed),
                    bytes_sent = self.sent,
                    whole = self.whole,
                    key.id = key,
                    workspace.id = workspace,
                    "request finished"
                )
            };
        }
        let read = matches!(self.method, "GET" | "HEAD" | "OPTIONS");
        match status {
            Some(500..) => line!(warn),
            Some(401 | 403 | 421) => line!(info),
            _ if read => line!(debug),
            _ => line!(info),
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        metrics::gauge!("stead_http_requests_in_flight").decrement(1.0);
        metrics::counter!("stead_http_received_bytes_total").increment(self.received.load(Ordering::Relaxed));
        metrics::counter!("stead_http_sent_bytes_total").increment(self.sent);
        // A client that left before there was an answer.
        let status = self.status.map_or_else(|| "none".to_owned(), |status| status.as_u16().to_string());
        let labels = [("method", self.method.to_owned()), ("route", self.route()), ("status", status)];
        metrics::counter!("stead_http_requests_total", &labels).increment(1);
        self.tell();
    }
}

/// A request's body, counted.
struct Received {
    body: Body,
    bytes: Arc<AtomicU64>,
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.bytes.fetch_add(frame.data_ref().map_or(0, Bytes::len) as u64, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body, counted; the request's life ends with it.
struct Sent {
    body: Body,
    life: Life,
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => self.life.sent += frame.data_ref().map_or(0, Bytes::len) as u64,
            Poll::Ready(None) => self.life.whole = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        // The last frame may say by itself that it is the last; nobody asks for another then.
        self.life.whole |= self.body.is_end_stream();
    }
}
