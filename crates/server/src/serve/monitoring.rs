//! What those see who watch the server: `/metrics`, `/healthz` and `/readyz`, outside of every protocol.
//!
//! Health is for anybody. The numbers of all workspaces are for operators: on the main address a key with the verb `operator` is
//! asked for, on the separate one of `server.metrics_listen` nothing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware};
use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use stead_domain::key::Verb;
use stead_domain::{Code, Error, ErrorKind};
use stead_engine::{Engine, RequestRecord};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::health::Health;
use super::listen::Listening;
use super::metrics::Sampled;
use super::observed::{REQUEST_ID, observe};

/// What is watched.
#[derive(Clone)]
pub(super) struct Monitoring {
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Sampled>,
    /// Whom to ask about keys.
    pub(super) engine: Engine,
}

const JSON: &str = "application/json; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether the path is one of these.
pub(super) fn is_monitoring(path: &str) -> bool {
    matches!(path, "/metrics" | "/healthz" | "/readyz")
}

impl Monitoring {
    /// Answers on the main address.
    pub(super) async fn answer(&self, request: Request) -> Response {
        let path = request.uri().path();
        if let Some(record) = RequestRecord::current() {
            record.routed(request.method().as_str(), path);
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let message = "only GET and HEAD are answered here\n";
            return (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET, HEAD")], message).into_response();
        }
        match path {
            "/metrics" => match self.require_operator(request.headers()).await {
                Ok(()) => self.numbers().await,
                Err(error) => refusal(&error),
            },
            "/readyz" => self.ready().await,
            _ => text(StatusCode::OK, JSON, "{\"status\":\"ok\"}\n".to_owned()),
        }
    }

    /// The separate address: the same without a key.
    pub(super) fn open(self) -> Router {
        async fn answer(State(monitoring): State<Monitoring>, request: Request) -> Response {
            match request.uri().path() {
                path @ "/metrics" if request.method() == Method::GET => {
                    if let Some(record) = RequestRecord::current() {
                        record.routed("GET", path);
                    }
                    monitoring.numbers().await
                }
                path if is_monitoring(path) => monitoring.answer(request).await,
                _ => (StatusCode::NOT_FOUND, "there is /metrics, /healthz and /readyz\n").into_response(),
            }
        }
        /// Under one id, as on the main address.
        async fn named(request: Request, next: Next) -> Response {
            let mut response = next.run(request).await;
            if let Some(id) = RequestRecord::current().and_then(|record| HeaderValue::from_str(record.id()).ok()) {
                response.headers_mut().insert(REQUEST_ID, id);
            }
            response
        }
        Router::new()
            .fallback(answer)
            .with_state(self)
            .layer(middleware::from_fn(named))
            .layer(middleware::from_fn(observe))
    }

    async fn require_operator(&self, headers: &HeaderMap) -> Result<(), Error> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (value, more) = (values.next(), values.next());
        let value = value
            .ok_or_else(|| Error::new(Code::CredentialMissing, "the numbers are for keys with the verb `operator`"))?;
        let secret = value.to_str().ok().and_then(|text| text.trim().split_once(' '));
        let secret = secret.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer") && more.is_none());
        let (_, secret) = secret.ok_or_else(|| Error::new(Code::CredentialInvalid, "the credential is not valid"))?;
        self.engine.authenticate(secret.trim()).await?.require(Verb::Operator)
    }

    async fn numbers(&self) -> Response {
        text(StatusCode::OK, PROMETHEUS, self.metrics.render().await)
    }

    async fn ready(&self) -> Response {
        let report = self.health.report().await;
        let status = if report.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        // It is made of words.
        let checks = serde_json::to_string(&report).unwrap_or_default();
        if !report.is_ready() {
            tracing::warn!(checks, "the server is not ready");
        }
        text(status, JSON, checks + "\n")
    }
}

/// Serves the separate address, if there is one, for as long as what is returned is kept.
pub(super) fn listen(
    monitoring: Monitoring,
    listener: Option<&std::net::TcpListener>,
) -> anyhow::Result<Option<DropGuard>> {
    let Some(listener) = listener else { return Ok(None) };
    // A copy: the caller keeps the socket for a successor.
    let listener =
        listener.try_clone().and_then(TcpListener::from_std).context("failed to prepare a listening socket")?;
    let address = listener.local_addr().context("failed to read the address listened on")?;
    tracing::info!(server.metrics_address = %address, "numbers and health are served at http://{address}");
    let stopping = CancellationToken::new();
    let guard = stopping.clone().drop_guard();
    tokio::spawn(async move {
        let serving = Listening::few().serve(listener, monitoring.open(), stopping, Duration::ZERO);
        serving.await;
    });
    Ok(Some(guard))
}

fn text(status: StatusCode, media: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

fn refusal(error: &Error) -> Response {
    let status = match error.kind() {
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::Denied => StatusCode::FORBIDDEN,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = (status, format!("{}\n", error.message)).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
