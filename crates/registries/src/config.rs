//! Where the registries are, as the operator or the machine's own tools say.

use std::path::PathBuf;

/// What a [`RegistryClient`](crate::RegistryClient) is told. Addresses may carry a user and a password, so there is no `Debug`.
#[derive(Clone)]
pub struct RegistryConfig {
    /// The Python index; absent for pip's own default.
    pub python_index: Option<String>,
    /// Asks pip for its default, blocking; called once, at the first question that needs it.
    pub python_default: fn() -> Option<String>,
    /// The npm registry; without one nothing can be asked about Node packages.
    pub npm_registry: Option<String>,
    /// Hosts that may be reached although the deny list covers their addresses, each with or without a port.
    pub registry_hosts: Vec<String>,
    /// A file of certificate authorities to trust in place of the host's own.
    pub ca_bundle: Option<PathBuf>,
}

/// The registries cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum InvalidConfig {
    /// A registry host is none.
    #[error("registry host `{text}` is neither a host nor host:port")]
    Host {
        /// As it stands in the configuration.
        text: String,
    },
    /// The certificate authorities cannot be read.
    #[error("failed to read the certificate authorities in {}", .path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The HTTP client cannot be made.
    #[error("failed to prepare the client of package registries")]
    Client {
        /// Why.
        #[source]
        source: reqwest::Error,
    },
}
