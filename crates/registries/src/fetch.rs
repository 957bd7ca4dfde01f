//! One GET to a registry: judged, bounded, redirected a few times at most.
//!
//! reqwest dials for itself, so it asks the judge for every name ([`Judge`] is its resolver) and never resolves a name
//! again; a literal address needs no resolver and is judged before the request. Redirects are followed here, one judged hop
//! after another, because the user of the registry's address goes to no other origin.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Certificate, Response, StatusCode, Url, redirect};
use stead_outbound::{DialError, Dialer, Host, Policy};

use crate::address::{Address, strip};
use crate::config::{InvalidConfig, RegistryConfig};
use crate::failure::Failure;

/// The largest answer that is read, in bytes.
const MOST: usize = 32 << 20;
/// How many redirects are followed.
const HOPS: usize = 5;
/// How long all attempts at one connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// A whole answer of status 200.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// Lower case, without parameters; empty when it was not said.
    pub(crate) media_type: String,
    pub(crate) body: Vec<u8>,
}

/// Fetches from registries.
pub(crate) struct Fetcher {
    http: reqwest::Client,
    judge: Arc<Judge>,
}

/// Names to judged addresses.
struct Judge {
    dialer: Arc<Dialer>,
    policy: Policy,
}

impl Resolve for Judge {
    fn resolve(&self, name: Name) -> Resolving {
        let (dialer, policy) = (Arc::clone(&self.dialer), self.policy.clone());
        Box::pin(async move {
            let host: Host = name.as_str().parse()?;
            // Every port is open to the policy, and the port of the address is put in by who asks.
            let addresses = dialer.judge(&host, 443, &policy).await?;
            let unported = addresses.into_iter().map(|address| SocketAddr::new(address.ip(), 0));
            Ok(Box::new(unported) as Addrs)
        })
    }
}

impl Fetcher {
    pub(crate) fn new(config: &RegistryConfig, dialer: Arc<Dialer>) -> Result<Self, InvalidConfig> {
        let exempt_hosts = config.registry_hosts.iter().map(|text| exempt(text)).collect::<Result<_, _>>()?;
        let judge = Arc::new(Judge { dialer, policy: Policy { exempt_hosts, ..Policy::open() } });
        let mut builder = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            // A proxy would dial what was never judged.
            .no_proxy()
            .dns_resolver(Arc::clone(&judge))
            .connect_timeout(CONNECT)
            .user_agent(concat!("stead/", env!("CARGO_PKG_VERSION")));
        if let Some(path) = &config.ca_bundle {
            let failed =
                |source: Box<dyn Error + Send + Sync>| InvalidConfig::Authorities { path: path.clone(), source };
            let bytes = std::fs::read(path).map_err(|error| failed(error.into()))?;
            let certificates = Certificate::from_pem_bundle(&bytes).map_err(|error| failed(error.into()))?;
            builder = builder.tls_certs_only(certificates);
        }
        let http = builder.build().map_err(|source| InvalidConfig::Client { source })?;
        Ok(Self { http, judge })
    }

    /// Fetches what lies at a path of a registry; `None` when nothing does.
    pub(crate) async fn get(&self, address: &Address, path: &str, accept: &str) -> Result<Option<Fetched>, Failure> {
        let mut url = address.join(path);
        for _ in 0..=HOPS {
            self.judge_literal(&url).await?;
            let request = address.authorize(&url, self.http.get(url.clone()).header(ACCEPT, accept));
            let response = request.send().await.map_err(failed)?;
            match response.status() {
                StatusCode::OK => return read(response).await.map(Some),
                StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(None),
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(Failure::Unauthorized),
                status if status.is_redirection() => url = next(&url, &response)?,
                status => return Err(Failure::Refused { status }),
            }
        }
        Err(Failure::Redirected)
    }

    async fn judge_literal(&self, url: &Url) -> Result<(), Failure> {
        let host: Host = url.host_str().unwrap_or_default().parse().map_err(|_| Failure::Denied)?;
        if let Host::Literal(_) = host {
            let port = url.port_or_known_default().unwrap_or_default();
            self.judge.dialer.judge(&host, port, &self.judge.policy).await.map_err(|error| denied(&error))?;
        }
        Ok(())
    }
}

/// Where a redirect leads. Never from https to http: what is secret about a question would be read on the way.
fn next(url: &Url, response: &Response) -> Result<Url, Failure> {
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let mut next = location.and_then(|location| url.join(location).ok()).ok_or(Failure::Redirected)?;
    strip(&mut next);
    let fits = next.scheme() == "https" || (next.scheme() == "http" && url.scheme() == "http");
    if fits && next.has_host() { Ok(next) } else { Err(Failure::Redirected) }
}

async fn read(mut response: Response) -> Result<Fetched, Failure> {
    let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > MOST {
            return Err(Failure::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Fetched { media_type, body })
}

fn exempt(text: &str) -> Result<Host, InvalidConfig> {
    let whole = text.parse::<Host>();
    let named = whole.or_else(|error| match text.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host.parse(),
        _ => Err(error),
    });
    named.map_err(|_| InvalidConfig::Host { text: text.escape_default().to_string() })
}

/// What to say of a request that failed; the address it was for stays out of the log, since a redirect may carry a token.
fn failed(error: reqwest::Error) -> Failure {
    let timed_out = error.is_timeout();
    let error = error.without_url();
    let mut chain = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref::<DialError>() {
            return denied(error);
        }
        chain.push_str(": ");
        chain.push_str(&cause.to_string());
        source = cause.source();
    }
    tracing::debug!(error = chain, "a package registry could not be asked");
    if timed_out { Failure::TimedOut } else { Failure::Unreachable }
}

fn denied(error: &DialError) -> Failure {
    tracing::debug!(%error, "a package registry may not be asked");
    match error {
        DialError::Resolve { .. } | DialError::Connect { .. } => Failure::Unreachable,
        _ => Failure::Denied,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn exempted(texts: &[&str]) -> Option<BTreeSet<Host>> {
        texts.iter().map(|text| exempt(text).ok()).collect()
    }

    #[test]
    fn registry_hosts_have_a_port_or_none() {
        let hosts = exempted(&["Mirror.test", "mirror.test:8080", "127.0.0.1:1", "[::1]:80", "::1"]).unwrap();
        let expected = ["mirror.test", "127.0.0.1", "::1"].map(|text| text.parse().unwrap());
        assert_eq!(hosts, BTreeSet::from(expected));
        for wrong in ["", "http://x", "a b", "host:99999"] {
            assert!(exempted(&[wrong]).is_none(), "{wrong}");
        }
    }
}
