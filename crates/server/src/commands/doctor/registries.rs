//! Package registries: those configured, or those that this machine's own tools use. One at an address that the deny list
//! covers is refused to builds until it is named.

use reqwest::Url;
use stead_outbound::{Resolver, SystemResolver, classify};

use super::{Finding, Standing};
use crate::client::Failure;
use crate::config::Settings;
use crate::registries::{npm_registry, python_default, python_index};

pub(super) fn findings(settings: &Settings) -> Result<Vec<Finding>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("start looking names up", &error))?;
    let python = settings.builds.index_url.clone().or_else(python_index).or_else(python_default);
    let node = settings.builds.npm_registry.clone().or_else(npm_registry);
    let found = [("python registry", python), ("npm registry", node)]
        .into_iter()
        .filter_map(|(name, url)| Some(runtime.block_on(judge(name, &url?, &settings.builds.registry_hosts))))
        .collect();
    // A name server that does not answer must not keep the program.
    runtime.shutdown_background();
    Ok(found)
}

async fn judge(name: &str, url: &str, exempt: &[String]) -> Finding {
    let Some(host) = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)) else {
        return Finding::missing(name, false, "its address is not a URL", None);
    };
    let literal = host.trim_matches(['[', ']']).parse().map(|address| vec![address]);
    let addresses = match literal {
        Ok(addresses) => Ok(addresses),
        Err(_) => resolve(&host).await,
    };
    let addresses = match addresses {
        Ok(addresses) => addresses,
        Err(error) => return Finding::missing(name, false, format!("{host} cannot be looked up: {error}"), None),
    };
    let Some(reason) = addresses.iter().find_map(|&address| classify(address)) else {
        return Finding::good(name, format!("{host} is at a public address"));
    };
    if exempt.iter().any(|allowed| allowed.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case(&host))) {
        return Finding::good(name, format!("{host} is at a {} address and allowed to builds", reason.as_str()));
    }
    let fix = format!("set builds.registry_hosts = [\"{host}\"] in the configuration");
    let text = format!("{host} is at a {} address, which builds are refused", reason.as_str());
    Finding { standing: Standing::Partial, ..Finding::missing(name, false, text, Some(fix)) }
}

async fn resolve(host: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
    let name = host.parse().map_err(std::io::Error::other)?;
    let patience = std::time::Duration::from_secs(5);
    tokio::time::timeout(patience, SystemResolver::default().resolve(&name)).await?
}
