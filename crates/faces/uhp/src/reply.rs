//! JSON answers, in the media type that UHP names (§2).

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use stead_domain::{Error, Result};

/// The answer that says `body`.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Result<Response> {
    let bytes = serde_json::to_vec(body).map_err(Error::internal)?;
    let mut response = json_stream(Body::from(bytes));
    *response.status_mut() = status;
    Ok(response)
}

/// The good answer whose body is JSON as it is made.
pub(crate) fn json_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let media_type = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}
