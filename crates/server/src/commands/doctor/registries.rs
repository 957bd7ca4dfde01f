//! Package registries: those configured, or those that this machine's own tools use. One at an address that the deny list
//! covers is refused to builds until it is named.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Url;
use stead_outbound::{Resolver, SystemResolver, classify};

use super::{Finding, Standing};
use crate::client::Failure;
use crate::config::Settings;
use crate::registries::{npm_registry, python_default, python_index};

const PATIENCE: Duration = Duration::from_secs(5);
/// As much of an index's page as is looked at, in bytes.
const MAX_PAGE: usize = 2 << 20;

pub(super) fn findings(settings: &Settings) -> Result<Vec<Finding>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("start looking names up", &error))?;
    let python = settings.builds.index_url.clone().or_else(python_index).or_else(python_default);
    let node = settings.builds.npm_registry.clone().or_else(npm_registry);
    let exempt = &settings.builds.registry_hosts;
    let mut found = runtime.block_on(async {
        let mut found = Vec::new();
        if let Some(index) = python {
            found.push(judge("python registry", &index, exempt).await);
            for host in file_hosts(&index).await {
                found.push(judge("python files", &format!("https://{host}"), exempt).await);
            }
        }
        if let Some(registry) = node {
            found.push(judge("npm registry", &registry, exempt).await);
        }
        found
    });
    // A name server that does not answer must not keep the program.
    runtime.shutdown_background();
    let refused: Vec<&String> = found.iter().filter_map(|judged| judged.refused.as_ref()).collect();
    let wanted: Vec<String> = exempt.iter().chain(refused).map(|host| format!("\"{host}\"")).collect();
    let fix = format!("set builds.registry_hosts = [{}] in the configuration", wanted.join(", "));
    for judged in &mut found {
        if judged.refused.is_some() {
            judged.finding.fix = Some(fix.clone());
        }
    }
    Ok(found.into_iter().map(|judged| judged.finding).collect())
}

/// A registry as found.
struct Judged {
    finding: Finding,
    /// Its host, when builds are refused it.
    refused: Option<String>,
}

impl From<Finding> for Judged {
    fn from(finding: Finding) -> Self {
        Self { finding, refused: None }
    }
}

/// The other hosts that a Python index keeps its files on, by the links on one of its pages: every index has pip itself.
async fn file_hosts(index: &str) -> BTreeSet<String> {
    let page = async {
        let url = Url::parse(&format!("{}/pip/", index.trim_end_matches('/'))).ok()?;
        let client = reqwest::Client::builder().timeout(PATIENCE).build().ok()?;
        let answer = client.get(url.clone()).header("accept", "text/html").send().await.ok()?;
        let mut text = answer.error_for_status().ok()?.text().await.ok()?;
        text.truncate(text.floor_char_boundary(MAX_PAGE));
        Some((url, text))
    };
    let Some((url, text)) = page.await else { return BTreeSet::new() };
    text.split("href=\"")
        .skip(1)
        .filter_map(|rest| url.join(rest.split('"').next()?).ok()?.host_str().map(str::to_owned))
        .filter(|host| Some(host.as_str()) != url.host_str())
        .collect()
}

async fn judge(name: &str, url: &str, exempt: &[String]) -> Judged {
    let Some(host) = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)) else {
        return Finding::missing(name, false, "its address is not a URL", None).into();
    };
    let literal = host.trim_matches(['[', ']']).parse().map(|address| vec![address]);
    let addresses = match literal {
        Ok(addresses) => Ok(addresses),
        Err(_) => resolve(&host).await,
    };
    let addresses = match addresses {
        Ok(addresses) => addresses,
        Err(error) => {
            return Finding::missing(name, false, format!("{host} cannot be looked up: {error}"), None).into();
        }
    };
    let Some(reason) = addresses.iter().find_map(|&address| classify(address)) else {
        return Finding::good(name, format!("{host} is at a public address")).into();
    };
    // With or without a port, as the configuration has it.
    let named = |allowed: &str| {
        let name = allowed.rsplit_once(':').map_or(allowed, |(name, _)| name);
        [allowed, name]
            .iter()
            .any(|name| name.trim_matches(['[', ']']).eq_ignore_ascii_case(host.trim_matches(['[', ']'])))
    };
    if exempt.iter().any(|allowed| named(allowed)) {
        return Finding::good(name, format!("{host} is at a {} address and allowed to builds", reason.as_str())).into();
    }
    let text = format!("{host} is at a {} address, which builds are refused", reason.as_str());
    let finding = Finding { standing: Standing::Partial, ..Finding::missing(name, false, text, None) };
    Judged { finding, refused: Some(host) }
}

async fn resolve(host: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
    let name = host.parse().map_err(std::io::Error::other)?;
    tokio::time::timeout(PATIENCE, SystemResolver::default().resolve(&name)).await?
}
