//! The faces on one origin.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware};
use futures_util::{StreamExt, stream};
use http::header::{ALLOW, CONTENT_TYPE};
use http::{Method, StatusCode};
use stead_face_frame::{Document, DocumentError, Streams};
use stead_face_stead::wire;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::gate::{gate, without_room};
use super::hosts::Hosts;
use super::monitoring::{Monitoring, is_monitoring};
use super::observed::observe;
use super::request::{is_stead, is_uhp, is_unserved, takes_room};
use super::upload;
use super::wiring::Parts;
use crate::config::Settings;

/// Shown to people who open the address in a browser.
const WELCOME: &str = "\
Stead gives AI agents a place to work.

This address serves the Unified Harness Protocol at /v1 and Stead's own interface at /stead/v1.
Try: stead project list
";

/// Everything that is served. Bodies that stream end when `stopping` is cancelled, so that a stop need not wait for them.
pub(super) fn app(
    parts: &Parts,
    settings: &Settings,
    address: SocketAddr,
    stopping: CancellationToken,
    monitoring: Monitoring,
    short: Arc<AtomicBool>,
) -> anyhow::Result<Router> {
    let provider = parts.engine.provider();
    let server = wire::Server {
        object: "stead.server".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        node: parts.engine.node().to_owned(),
        provider: provider.name().to_owned(),
        isolation: provider.capabilities().isolation,
    };
    let streams = Streams::default();
    let stead = stead_face_stead::router(stead_face_stead::FaceState {
        engine: parts.engine.clone(),
        server: Arc::new(server),
        document: Bytes::from(document().map_err(|error| anyhow::anyhow!("{error}"))?.to_string()),
        streams: streams.clone(),
    });
    let uhp = parts.uhp(streams);
    let watched = Router::new().fallback(move |request: Request| {
        let monitoring = monitoring.clone();
        async move { monitoring.answer(request).await }
    });
    Ok(compose(uhp, stead, watched, Hosts::new(address, &settings.server.hosts), stopping, short))
}

/// The document that describes every route of every face.
fn document() -> Result<serde_json::Value, DocumentError> {
    Document::new("Stead", env!("CARGO_PKG_VERSION"))
        .with(stead_face_uhp::document())
        .with(stead_face_stead::document())
        .write()
}

fn compose(
    uhp: Router,
    stead: Router,
    watched: Router,
    hosts: Hosts,
    stopping: CancellationToken,
    short: Arc<AtomicBool>,
) -> Router {
    let stopped = stopping.clone();
    let by_path = move |request: Request| {
        let (uhp, stead, watched, stopping) = (uhp.clone(), stead.clone(), watched.clone(), stopping.clone());
        let short = short.load(Ordering::SeqCst);
        async move {
            let path = request.uri().path();
            if short && takes_room(request.method(), path) && (is_uhp(path) || is_stead(path)) {
                return without_room(path);
            }
            let face = if is_uhp(path) {
                uhp
            } else if is_stead(path) {
                stead
            } else if is_monitoring(path) {
                watched
            } else {
                return welcome(request.method(), path);
            };
            match face.oneshot(request).await {
                Ok(response) => until(response, stopping),
                Err(never) => match never {},
            }
        }
    };
    Router::new()
        .fallback(by_path)
        .layer(middleware::from_fn_with_state(Arc::new(hosts), gate))
        .layer(middleware::from_fn_with_state(stopped, upload::watch))
        .layer(middleware::from_fn(observe))
}

/// The same answer; a stream that follows something live is broken off when the server stops, so that its client asks again
/// and the stop need not wait. Downloads go on: what has an end of its own may reach it.
fn until(response: Response, stopping: CancellationToken) -> Response {
    let media = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let live = media.starts_with("text/event-stream")
        || [wire::OUTPUT_LINES, wire::OUTPUT_FRAMES].contains(&media)
        || response.headers().contains_key(wire::LOG_OFFSET);
    if !live {
        return response;
    }
    response.map(|body| {
        let cut = async move {
            stopping.cancelled().await;
            Err(axum::Error::new(std::io::Error::other("the server is stopping")))
        };
        // An error breaks the connection: an end that looks whole would tell the client that there is no more.
        let ended = CancellationToken::new();
        let end = ended.clone();
        let data =
            body.into_data_stream().chain(stream::once(async move { end.cancel() }).filter_map(|()| async { None }));
        let cut = stream::once(cut).take_until(async move { ended.cancelled().await });
        Body::from_stream(stream::select(data, cut))
    })
}

fn welcome(method: &Method, path: &str) -> Response {
    if is_unserved(path) {
        return (StatusCode::NOT_FOUND, "no protocol is served at this path\n").into_response();
    }
    if path != "/" {
        // Not a page: whoever mistypes a probe's path must not hear that all is well.
        return (StatusCode::NOT_FOUND, "nothing is served at this path\n").into_response();
    }
    if method == Method::GET || method == Method::HEAD {
        return ([(CONTENT_TYPE, "text/plain; charset=utf-8")], WELCOME).into_response();
    }
    let message = "only GET and HEAD are answered here\n";
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET, HEAD")], message).into_response()
}

#[cfg(test)]
mod tests {
    use axum::routing::get;

    use super::*;

    async fn panics() -> &'static str {
        panic!("the secret words of a panic")
    }

    fn router(short: bool) -> Router {
        let uhp = Router::new().route("/v1/uhp", get(|| async { "uhp" })).route("/v1/panic", get(panics));
        let stead = Router::new().route("/stead/v1/server", get(|| async { "stead" }));
        let hosts = Hosts::new("127.0.0.1:1".parse().unwrap(), &[]);
        compose(uhp, stead, Router::new(), hosts, CancellationToken::new(), Arc::new(AtomicBool::new(short)))
    }

    async fn ask(method: Method, path: &str, host: Option<&str>) -> (u16, http::HeaderMap, String) {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let response = router(false).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        (parts.status.as_u16(), parts.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn paths_reach_their_face_and_everything_is_guarded() {
        let host = Some("localhost:1");
        for (method, path, host, status, text) in [
            (Method::GET, "/v1/uhp", host, 200, "uhp"),
            (Method::GET, "/stead/v1/server", host, 200, "stead"),
            (Method::GET, "/", host, 200, "Stead gives"),
            (Method::HEAD, "/", host, 200, ""),
            (Method::POST, "/", host, 405, "only GET"),
            (Method::GET, "/healtz", host, 404, "nothing is served"),
            (Method::GET, "/healthz/", host, 404, "nothing is served"),
            (Method::POST, "/v1x", host, 404, "nothing is served"),
            (Method::GET, "/api/v1/threads", host, 404, "no protocol"),
            (Method::POST, "/api/v1", host, 404, "no protocol"),
            (Method::GET, "/v1/nothing", host, 404, ""),
            (Method::GET, "/v1/uhp", Some("evil.test"), 421, "invalid_request_error"),
            (Method::GET, "/v1/uhp", None, 400, "Host"),
            (Method::GET, "/v1/panic", host, 500, "server_error"),
        ] {
            let (found, headers, body) = ask(method, path, host).await;
            assert_eq!(found, status, "{path}");
            assert!(body.contains(text), "{path}: {body}");
            assert!(!body.contains("secret words"));
            assert_eq!(headers["x-content-type-options"], "nosniff");
            assert_eq!(headers["x-request-id"].len(), 32);
            assert_eq!(headers.contains_key("uhp-version"), path.starts_with("/v1/"), "{path}");
        }
    }

    #[tokio::test]
    async fn without_room_new_work_alone_is_refused() {
        for (method, path, status) in [
            (Method::POST, "/v1/uhp", 503),
            (Method::PUT, "/stead/v1/server", 503),
            (Method::PATCH, "/v1/uhp", 503),
            (Method::GET, "/v1/uhp", 200),
            (Method::DELETE, "/v1/uhp", 405),
            (Method::POST, "/v1/x/cancel", 404),
            (Method::POST, "/stead/v1/collect", 404),
            (Method::POST, "/", 405),
        ] {
            let request = Request::builder().method(&method).uri(path).header("host", "localhost:1");
            let response = router(true).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(response.status().as_u16(), status, "{method} {path}");
            assert_eq!(response.headers().contains_key("retry-after"), status == 503, "{method} {path}");
        }
    }

    #[tokio::test]
    async fn a_live_stream_is_broken_off_when_the_server_stops_and_ends_by_itself_otherwise() {
        let live = |body: Body| {
            let mut response = Response::new(body);
            response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/event-stream"));
            response
        };
        let stopping = CancellationToken::new();
        let endless = stream::pending::<Result<bytes::Bytes, std::io::Error>>();
        let broken = until(live(Body::from_stream(endless)), stopping.clone());
        let whole = until(live(Body::from("data: x\n\n")), CancellationToken::new());
        stopping.cancel();
        assert!(axum::body::to_bytes(broken.into_body(), 1 << 20).await.is_err());
        assert_eq!(axum::body::to_bytes(whole.into_body(), 1 << 20).await.unwrap(), "data: x\n\n");
    }
}
