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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Who adds a route that changes something says here whether it is carried out on a full disk.
    #[test]
    fn on_a_full_disk_what_ends_and_removes_is_carried_out_and_nothing_else() {
        let rows = stead_face_uhp::table().into_iter().chain(stead_face_stead::table());
        let carried_out: BTreeSet<String> = rows
            .filter(|row| !row.route.method.is_safe() && !takes_room(&row.route.method, row.route.path))
            .map(|row| format!("{} {}", row.route.method, row.route.path))
            .collect();
        let besides: Vec<&str> =
            carried_out.iter().map(String::as_str).filter(|route| !route.starts_with("DELETE ")).collect();
        let expected = [
            "POST /stead/v1/collect",
            "POST /stead/v1/projects/{project}/builds/{number}/cancel",
            "POST /v1/responses/{response_id}/cancel",
            "POST /v1/sessions/{session_id}/cancel",
        ];
        assert_eq!(besides, expected);
        assert!(takes_room(&Method::PUT, "/v1/environments/{id}/files/a/cancel"));
    }
}
