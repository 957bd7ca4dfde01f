//! Requests.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, RequestBuilder, Response, Url, redirect};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Failure;

/// What a path segment carries as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// One segment of a path.
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// A path within a project, segment by segment. `.` and `..` would be resolved away before they are sent, and are not paths
/// of a project, so they are refused here.
pub(crate) fn source_path(path: &str) -> Result<String, Failure> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(Failure::usage(format!("`{path}` is not a path within a project"))
            .hint("paths are relative to the project's root, without `.` and `..`"));
    }
    Ok(path.split('/').map(segment).collect::<Vec<_>>().join("/"))
}

/// A JSON answer as it came, for `--json`, and as what is shown.
pub(crate) struct Answer<T> {
    pub(crate) json: Value,
    pub(crate) value: T,
}

/// A server, and the key it is called with.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    key: Option<String>,
    patience: Duration,
}

impl Client {
    pub(crate) fn new(url: &str, key: Option<String>, patience: Duration) -> Result<Self, Failure> {
        let wrong = || Failure::usage(format!("`{url}` is not the http or https address of a server"));
        let base = Url::parse(url).map_err(|_| wrong())?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(wrong());
        }
        let loopback = match base.host_str().unwrap_or_default().trim_matches(['[', ']']) {
            "localhost" => true,
            host => host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback()),
        };
        // A redirect would carry the key to an address that nobody named.
        let mut builder = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .user_agent(concat!("stead/", env!("CARGO_PKG_VERSION")));
        if loopback {
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| Failure::new(format!("failed to prepare the client: {}", chain(&error))))?;
        Ok(Self { http, base, key, patience })
    }

    /// For how long a server may be away before following it is given up.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// A request to a path that begins with `/` and is already encoded.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.base.as_str().trim_end_matches('/'));
        let request = self.http.request(method, url);
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends a request; anything but 2xx is a failure.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|error| self.unanswered(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.unwrap_or_default();
        Err(Failure::answered(status, &body))
    }

    /// Sends a request and reads a JSON answer.
    pub(crate) async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<Answer<T>, Failure> {
        let response = self.send(request).await?;
        let bytes = response.bytes().await.map_err(|error| self.unanswered(&error))?;
        let unexpected = |error: serde_json::Error| {
            Failure::new(format!("the server's answer is not what this version of `stead` expects: {error}"))
        };
        let json: Value = serde_json::from_slice(&bytes).map_err(unexpected)?;
        let value = serde_json::from_value(json.clone()).map_err(unexpected)?;
        Ok(Answer { json, value })
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Failure> {
        self.answer(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Failure> {
        self.answer(self.request(Method::POST, path)).await
    }

    pub(crate) async fn post_json<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failure> {
        self.answer(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn put_json<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failure> {
        self.answer(self.request(Method::PUT, path).json(body)).await
    }

    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Failure> {
        self.answer(self.request(Method::DELETE, path)).await
    }

    /// What it means that no answer came, or none to its end.
    pub(crate) fn unanswered(&self, error: &reqwest::Error) -> Failure {
        if error.is_connect() {
            return Failure::unreached(format!("no server answers at {}: {}", self.base, chain(error)))
                .hint("start one with `stead serve`, or name another with --url or STEAD_URL");
        }
        Failure::new(format!("the connection to {} broke: {}", self.base, chain(error)))
    }
}

/// The innermost cause alone: what lies around it repeats the address.
fn chain(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_encoded_segment_by_segment_and_never_climb() {
        assert_eq!(source_path("a b/ü?#%.txt").unwrap(), "a%20b/%C3%BC%3F%23%25.txt");
        assert_eq!(source_path("dir/").unwrap(), "dir");
        for wrong in ["", "..", "a/../b", "/etc/passwd", "a//b", "./a"] {
            assert!(source_path(wrong).is_err(), "{wrong}");
        }
        assert_eq!(segment("a/b"), "a%2Fb");
    }
}
