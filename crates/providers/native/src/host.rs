//! What all sandboxes of one provider share.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stead_domain::WorkspaceId;
use stead_domain::network::NetworkPolicy;
use stead_domain::ports::{BuildNetwork, Endpoint, ProviderError};
use stead_egress::{Host as EgressHost, HostName, Policy, PortRule};
use stead_outbound::{DialError, Dialer};
use stead_sandbox::cgroup::CgroupManager;
use stead_sandbox::{Launcher, features};

use crate::config::{NativeConfig, UIDS_PER_SLOT, fits};
use crate::egress::Keeper;
use crate::fault::{cgroup_failed, chain, failed, lost};
use crate::ids::{self, Users};
use crate::launches::Launches;
use crate::program;
use crate::run_directory::RunDirectory;
use crate::slots::Slots;

/// The service's side of this machine.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) config: NativeConfig,
    pub(crate) cgroups: CgroupManager,
    pub(crate) run: RunDirectory,
    pub(crate) slots: Slots,
    pub(crate) users: Users,
    /// The runtime, sealed.
    pub(crate) program: OwnedFd,
    pub(crate) launcher: Launcher,
    pub(crate) egress: Arc<Keeper>,
    pub(crate) launches: Launches,
    dialer: Arc<Dialer>,
    registries: Registries,
}

/// The operator's registry hosts, and the ports named with them.
#[derive(Debug, Default)]
struct Registries {
    hosts: BTreeSet<EgressHost>,
    ports: BTreeSet<u16>,
}

impl Host {
    pub(crate) fn open(config: NativeConfig, dialer: Arc<Dialer>) -> Result<Self, ProviderError> {
        check_paths(&config)?;
        let run = RunDirectory::open(&config.run).map_err(failed("open the run directory", &config.run))?;
        let leases = config.data.join("environments/slots");
        let each = config.slots_of_one_workspace();
        let slots = Slots::open(leases.clone(), config.slots, each).map_err(failed("open the slots", &leases))?;
        slots.remove_unfinished().map_err(failed("clear the slots", &leases))?;
        let users = ids::claim(&config)?;
        let registries = Registries::parse(&config.registry_hosts)?;
        let cgroups = CgroupManager::detect(&config.cgroup_prefix).map_err(cgroup_failed)?;
        for note in cgroups.notes() {
            tracing::warn!(note, "control groups");
        }
        let features = features::probe(&config.launcher, &cgroups, &config.data)
            .map_err(failed("find out what this machine enforces, with", &config.launcher))?;
        if let Some(obstacle) = features.obstacle() {
            let message = format!("this machine lacks {}: {}", obstacle.name, obstacle.explanation);
            return Err(ProviderError::permanent("native_feature_missing", message));
        }
        let program = program::seal(&config.runtime)?;
        let egress = Keeper::new(config.launcher.clone(), users.egress(), cgroups.clone());
        let launcher = Launcher::new(config.launcher.clone());
        let launches = Launches::default();
        let host = Self { config, cgroups, run, slots, users, program, launcher, egress, launches, dialer, registries };
        host.start_launcher_ahead();
        Ok(host)
    }

    /// Starts the launcher of the next sandbox, which then begins with one that has started. Blocking.
    pub(crate) fn start_launcher_ahead(&self) {
        if let Err(error) = self.launcher.prepare() {
            tracing::warn!(
                error = chain(&error),
                "no launcher could be started ahead; the next sandbox starts its own"
            );
        }
    }

    /// What a session may reach; `None` is nothing.
    pub(crate) fn session_egress(
        &self,
        network: &NetworkPolicy,
        workspace: WorkspaceId,
        label: String,
    ) -> Result<Option<Policy>, ProviderError> {
        Ok(of_workspace(workspace, session_policy(&self.config, network, label)?))
    }

    /// What a build may reach; `None` is nothing.
    pub(crate) fn build_egress(
        &self,
        network: &BuildNetwork,
        workspace: WorkspaceId,
        label: String,
    ) -> Result<Option<Policy>, ProviderError> {
        Ok(of_workspace(workspace, self.build_policy(network, label)?))
    }

    fn build_policy(&self, network: &BuildNetwork, label: String) -> Result<Option<Policy>, ProviderError> {
        match network {
            BuildNetwork::Disabled => Ok(None),
            BuildNetwork::Restricted(hosts) => {
                let wanted = Registries::parse(hosts)?;
                let hosts = wanted.hosts.iter().chain(&self.registries.hosts).filter_map(|host| match host {
                    EgressHost::Name(name) => Some(name.clone()),
                    // An address is reached where the operator exempts it, and has no name to show.
                    EgressHost::Literal(_) => None,
                });
                let mut policy = Policy::exact(label, hosts);
                allow(&mut policy, &self.config.extra_allowed);
                policy.registry_hosts.clone_from(&self.registries.hosts);
                open_ports(&mut policy, wanted.ports.iter().chain(&self.registries.ports).copied());
                Ok(Some(policy))
            }
            BuildNetwork::Enabled(hosts) => {
                let mut policy = Policy::open(label);
                allow(&mut policy, &self.config.extra_allowed);
                policy.registry_hosts.clone_from(&self.registries.hosts);
                let named = Registries::parse(hosts)?;
                open_ports(&mut policy, named.ports.iter().chain(&self.registries.ports).copied());
                Ok(Some(policy))
            }
            BuildNetwork::Only(endpoint) => only(endpoint, label).map(Some),
        }
    }

    /// Connects to the host as the proxy would.
    pub(crate) async fn probe(&self, endpoint: &Endpoint) -> Result<(), ProviderError> {
        let policy = only(endpoint, String::new())?;
        let (host, port) = (parse_host(&endpoint.host)?, endpoint.ports.first().copied().unwrap_or_default());
        let connected = self.dialer.connect(&host, port, &policy.dial_policy()).await;
        connected.map(|_| ()).map_err(|error| {
            let message = error.to_string();
            match error {
                DialError::Resolve { .. } => ProviderError::passing("host_unresolved", message),
                DialError::Connect { .. } | DialError::OwnAddresses { .. } => {
                    ProviderError::passing("host_unreachable", message)
                }
                // No exemption opens what every address of it is closed for.
                DialError::AllDenied { denied, .. } if !denied.iter().any(|denied| denied.reason.can_be_exempted()) => {
                    ProviderError::permanent("host_closed", message)
                }
                DialError::AllDenied { .. } | DialError::NameNotAllowed { .. } | DialError::PortNotAllowed { .. } => {
                    ProviderError::permanent("host_denied", message)
                }
            }
        })
    }

    /// Who has to measure a sandbox's files, where the service cannot.
    pub(crate) fn measurer(&self) -> Option<PathBuf> {
        self.users.is_own().then(|| self.config.launcher.clone())
    }

    /// Removes what a sandbox that does not run has outside its files. Blocking.
    pub(crate) fn clear(&self, name: &str) -> Result<(), ProviderError> {
        self.cgroups.kill(name).and_then(|()| self.cgroups.remove(name)).map_err(cgroup_failed)?;
        self.run.remove(name).map_err(failed("clear the run directory", &self.run.of(name)))
    }
}

/// All sandboxes of a workspace share what one of them may take of the proxy.
fn of_workspace(workspace: WorkspaceId, policy: Option<Policy>) -> Option<Policy> {
    policy.map(|policy| Policy { group: workspace.to_string(), ..policy })
}

fn session_policy(
    config: &NativeConfig,
    network: &NetworkPolicy,
    label: String,
) -> Result<Option<Policy>, ProviderError> {
    let mut policy = match network {
        NetworkPolicy::Disabled => return Ok(None),
        NetworkPolicy::Restricted(hosts) => Policy::exact(label, names(hosts.iter())?),
        NetworkPolicy::Enabled => Policy { ports: config.session_ports.clone(), ..Policy::open(label) },
    };
    allow(&mut policy, &config.extra_allowed);
    Ok(Some(policy))
}

/// Runs blocking work off the asynchronous threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ProviderError> + Send + 'static,
) -> Result<T, ProviderError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(lost(error)))
}

impl Registries {
    fn parse(texts: &BTreeSet<String>) -> Result<Self, ProviderError> {
        let mut registries = Self::default();
        for text in texts {
            let whole = text.parse::<EgressHost>();
            let (host, port) = match (whole, text.rsplit_once(':')) {
                (Ok(host), _) => (Ok(host), None),
                (Err(_), Some((host, port))) => (host.parse(), Some(port)),
                (Err(error), None) => (Err(error), None),
            };
            let port = port.map(str::parse::<u16>).transpose();
            let (Ok(host), Ok(port)) = (host, port) else {
                let message = format!("registry host `{}` is neither a host nor host:port", text.escape_default());
                return Err(ProviderError::permanent("native_configuration", message));
            };
            registries.hosts.insert(host);
            registries.ports.extend(port);
        }
        Ok(registries)
    }
}

fn parse_host(text: &str) -> Result<EgressHost, ProviderError> {
    text.parse()
        .map_err(|_| ProviderError::permanent("host_invalid", "not a host name or address that can be resolved"))
}

/// The policy of one host.
fn only(endpoint: &Endpoint, label: String) -> Result<Policy, ProviderError> {
    let host = parse_host(&endpoint.host)?;
    let mut policy = Policy::only(label, host.clone(), endpoint.ports.iter().copied());
    if endpoint.allowed {
        policy.registry_hosts.insert(host);
    }
    policy.limits.total_bytes = Some(endpoint.total_bytes);
    Ok(policy)
}

/// Host names as the proxy takes them.
fn names<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<HostName>, ProviderError> {
    let invalid = |_| ProviderError::permanent("host_invalid", "not a host name that can be resolved");
    texts.map(|text| text.parse::<HostName>().map_err(invalid)).collect()
}

fn allow(policy: &mut Policy, endpoints: &[SocketAddr]) {
    policy.extra_allowed.extend(endpoints);
    open_ports(policy, endpoints.iter().map(SocketAddr::port));
}

fn open_ports(policy: &mut Policy, ports: impl Iterator<Item = u16>) {
    if let PortRule::Only(open) = &mut policy.ports {
        open.extend(ports);
    }
}

/// What keeps a provider from being opened and can be seen without changing anything. Blocking.
pub(crate) fn check(config: &NativeConfig) -> Result<(), ProviderError> {
    check_paths(config)?;
    Registries::parse(&config.registry_hosts)?;
    program::seal(&config.runtime)?;
    ids::check(config)
}

fn check_paths(config: &NativeConfig) -> Result<(), ProviderError> {
    let wrong = |message: &str| Err(ProviderError::permanent("native_configuration", message));
    if config.slots == 0 || !fits(config.uid_base.unwrap_or(UIDS_PER_SLOT), config.slots) {
        return wrong("the user ids of the slots must begin above 65535 and end below the highest id");
    }
    if !config.data.is_absolute() || !config.run.is_absolute() {
        return wrong("the data and run directories must be absolute paths");
    }
    if config.data == Path::new("/") || config.run == Path::new("/") {
        return wrong("the data and run directories must not be the root of the file system");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_reach_the_ports_that_their_network_opens() {
        let program = crate::RuntimeProgram::Bytes(b"");
        let mut config = NativeConfig::new("/data", "/run", program);
        let admitted = |config: &NativeConfig, network: &str, host: &str, port| {
            let policy = session_policy(config, &network.parse().unwrap(), String::new()).unwrap();
            policy.is_some_and(|policy| policy.dial_policy().admit(&host.parse().unwrap(), port).is_ok())
        };
        let restricted = "restricted one.example";
        for (port, open) in [(443, true), (22, true), (5432, false)] {
            assert_eq!(admitted(&config, "enabled", "any.example", port), open, "{port}");
        }
        config.session_ports = PortRule::Only([443, 5432].into());
        assert!(admitted(&config, "enabled", "any.example", 5432) && !admitted(&config, "enabled", "any.example", 22));
        config.session_ports = PortRule::Any;
        assert!(admitted(&config, "enabled", "any.example", 25));
        // What the operator opens is for enabled networks.
        assert!(
            admitted(&config, restricted, "one.example", 443) && !admitted(&config, restricted, "one.example", 5432)
        );
        for host in ["two.example", "www.one.example", "10.0.0.1"] {
            assert!(!admitted(&config, restricted, host, 443), "{host}");
        }
        assert!(!admitted(&config, "disabled", "one.example", 443));
        config.extra_allowed = vec!["127.0.0.1:8000".parse().unwrap()];
        assert!(admitted(&config, restricted, "one.example", 8000));
    }

    #[test]
    fn sandboxes_of_a_workspace_are_one_group() {
        let workspace: WorkspaceId =
            format!("{}_018f3c2a7b4c7d3e9f6a5b4c3d2e1f01", WorkspaceId::PREFIX).parse().unwrap();
        let groups = ["one", "two"].map(|label| of_workspace(workspace, Some(Policy::open(label))).unwrap().group);
        assert_eq!(groups, [workspace.to_string(), workspace.to_string()]);
    }

    #[test]
    fn registries_are_hosts_with_or_without_a_port() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let found =
            Registries::parse(&texts(&["Mirror.internal", "10.0.0.7:3141", "[fd00::1]:8081", "fd00::2"])).unwrap();
        let hosts = ["mirror.internal", "10.0.0.7", "fd00::1", "fd00::2"].map(|host| host.parse().unwrap());
        assert_eq!(found.hosts, BTreeSet::from(hosts));
        assert_eq!(found.ports, BTreeSet::from([3141, 8081]));
        for wrong in ["", "a b", "host:port", "host:99999", "http://host/"] {
            assert_eq!(Registries::parse(&texts(&[wrong])).unwrap_err().code, "native_configuration", "{wrong}");
        }
    }
}
