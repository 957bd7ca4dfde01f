//! The outermost layer: request ids, the bodies of refusals, and the headers that every answer carries.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::errors::Failure;
use crate::version;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that a caller may choose, in bytes.
const LONGEST: usize = 128;

/// The caller's id when it is short and printable, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(HEADER).and_then(|value| value.to_str().ok());
    let printable = |id: &&str| !id.is_empty() && id.len() <= LONGEST && id.bytes().all(|byte| byte.is_ascii_graphic());
    given.filter(printable).map_or_else(new_id, str::to_owned)
}

/// Unique among the requests of every process, and no secret: it correlates an answer with the log.
fn new_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    static PROCESS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("req_{:016x}{:08x}", PROCESS.hash_one(number), number & 0xffff_ffff)
}

/// Wraps every route and both fallbacks.
pub(crate) async fn layer(request: Request, next: Next) -> Response {
    let (id, version) = (request_id(request.headers()), version::of(request.headers()));
    let mut response = next.run(request).await;
    if let Some(failure) = response.extensions_mut().remove::<Failure>() {
        let allow = response.headers_mut().remove(header::ALLOW);
        response = failure.traced(&id).render();
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
    }
    let headers = response.headers_mut();
    version::stamp(headers, version);
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(HEADER, id);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_id_is_kept_when_it_is_harmless() {
        let with = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_static(value));
            request_id(&headers)
        };
        assert_eq!(with("abc-1"), "abc-1");
        assert!(with("a b").starts_with("req_"));
        assert!(with("").starts_with("req_"));
        assert_ne!(new_id(), new_id());
    }
}
