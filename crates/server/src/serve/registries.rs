//! Who is asked about packages: the registries that builds install from. The machine's tools say which these are, and until they
//! have said it whoever asks about a package waits.

use std::sync::Arc;
use std::time::Duration;

use stead_domain::declared::PackageSpec;
use stead_domain::ports::{Checked, PortFuture, Registries};
use stead_outbound::Dialer;
use stead_registries::{InvalidConfig, RegistryClient, RegistryConfig};
use tokio::sync::SetOnce;

use crate::config::Settings;
use crate::registries::{self, Registries as Found};

/// The longest that a question waits for the tools.
const PATIENCE: Duration = Duration::from_secs(20);

/// The client of the registries, once it is known which they are.
#[derive(Debug, Default)]
pub(super) struct LateRegistries(SetOnce<RegistryClient>);

impl LateRegistries {
    /// Begins to answer; what was told first counts.
    pub(super) fn tell(&self, client: RegistryClient) {
        let _ = self.0.set(client);
    }
}

impl Registries for LateRegistries {
    fn check<'a>(&'a self, spec: &'a PackageSpec) -> PortFuture<'a, Checked> {
        Box::pin(async move {
            match tokio::time::timeout(PATIENCE, self.0.wait()).await {
                Ok(client) => client.check(spec).await,
                Err(_) => Checked::unasked("the server does not know its registries yet"),
            }
        })
    }
}

/// Prepares the client for the registries in effect; blocking.
pub(super) fn open(settings: &Settings, registries: &Found) -> Result<RegistryClient, InvalidConfig> {
    let config = RegistryConfig {
        python_index: registries.python_index.clone(),
        python_default: registries::python_default,
        npm_registry: registries.npm_registry.clone(),
        registry_hosts: settings.builds.registry_hosts.clone(),
        ca_bundle: settings.native.ca_bundle.clone(),
    };
    RegistryClient::open(config, Arc::new(Dialer::system(Vec::new())))
}
