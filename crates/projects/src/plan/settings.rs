//! What a build is told besides the source.

use stead_domain::Slug;
use stead_domain::declared::Declared;
use stead_domain::network::BuildNetworkPolicy;

/// The settings of a build. Each goes into the keys of the layers that it has a say in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildSettings {
    /// Names the mount, which shebangs and links of an installed layer contain.
    pub slug: Slug,
    /// What the owner says of how to run the project; `setup.sh` sees it.
    pub entry: String,
    /// What the steps may reach.
    pub network: BuildNetworkPolicy,
    /// The egress proxy as a sandbox reaches it.
    pub proxy: String,
    /// The operator's Python index; absent for the installers' own default.
    pub python_index: Option<String>,
    /// The operator's npm registry; absent for npm's own default.
    pub npm_registry: Option<String>,
    /// What the owner asks for besides the manifests.
    pub declared: Declared,
}

impl BuildSettings {
    /// Open network through the usual proxy, default indexes.
    pub fn new(slug: Slug) -> Self {
        Self {
            slug,
            entry: String::new(),
            network: BuildNetworkPolicy::Enabled,
            proxy: "http://127.0.0.1:3128".to_owned(),
            python_index: None,
            npm_registry: None,
            declared: Declared::default(),
        }
    }
}
