//! The outermost layer: the request's id and route, the bodies of refusals, and the headers that every answer carries.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue, header};

use crate::errors::Failure;
use crate::state::FaceState;
use crate::version;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Wraps every route and both fallbacks. The server has named the request before; where this face stands alone, it does so here.
pub(crate) async fn layer(State(state): State<FaceState>, request: Request, next: Next) -> Response {
    let chosen = request.headers().get(HEADER).and_then(|value| value.to_str().ok());
    let (record, version) = (state.engine.request_record(chosen), version::of(request.headers()));
    if let Some(path) = request.extensions().get::<MatchedPath>() {
        record.routed(request.method().as_str(), path.as_str());
    }
    let mut response = record.clone().scope(next.run(request)).await;
    if let Some(failure) = response.extensions_mut().remove::<Failure>() {
        let allow = response.headers_mut().remove(header::ALLOW);
        response = failure.traced(record.id()).render();
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
    }
    let headers = response.headers_mut();
    version::stamp(headers, version);
    if let Ok(id) = HeaderValue::from_str(record.id()) {
        headers.insert(HEADER, id);
    }
    response
}
