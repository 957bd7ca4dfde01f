//! Writes down which route a request takes, for the log line and the audit log.

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use stead_engine::RequestRecord;

/// Wraps every route and both fallbacks, which have none.
pub(crate) async fn layer(request: Request, next: Next) -> Response {
    if let (Some(record), Some(path)) = (RequestRecord::current(), request.extensions().get::<MatchedPath>()) {
        record.routed(request.method().as_str(), path.as_str());
    }
    next.run(request).await
}
