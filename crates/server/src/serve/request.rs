//! Which face a path belongs to, and what a request may need.

use http::Method;

/// Whether the path is UHP's.
pub(super) fn is_uhp(path: &str) -> bool {
    is_beneath(path, "/v1")
}

/// Whether the path is this product's own.
pub(super) fn is_stead(path: &str) -> bool {
    is_beneath(path, "/stead/v1")
}

/// Whether the path is one that a protocol owns which is not served: whoever speaks it has to hear so, and not read a page.
pub(super) fn is_unserved(path: &str) -> bool {
    is_beneath(path, "/api/v1")
}

/// Whether the path is asked by those who watch the server: outside of every protocol, and without a key.
pub(super) fn is_health(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// Whether a request of a face may need room on the disk: everything but what reads, ends and removes.
pub(super) fn takes_room(method: &Method, path: &str) -> bool {
    let ends = path.ends_with("/cancel") || path == "/stead/v1/collect";
    !(method.is_safe() || method == Method::DELETE || (method == Method::POST && ends))
}

fn is_beneath(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
