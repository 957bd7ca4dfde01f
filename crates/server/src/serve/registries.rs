//! Who is asked about packages: the registries that builds install from.

use std::sync::Arc;

use stead_outbound::Dialer;
use stead_registries::{InvalidConfig, RegistryClient, RegistryConfig};

use crate::config::Settings;
use crate::registries::{self, Registries};

/// Prepares the client for the registries in effect; blocking.
pub(super) fn open(settings: &Settings, registries: &Registries) -> Result<RegistryClient, InvalidConfig> {
    let config = RegistryConfig {
        python_index: registries.python_index.clone(),
        python_default: registries::python_default,
        npm_registry: registries.npm_registry.clone(),
        registry_hosts: settings.builds.registry_hosts.clone(),
        ca_bundle: settings.native.ca_bundle.clone(),
    };
    RegistryClient::open(config, Arc::new(Dialer::system(Vec::new())))
}
