//! Which network a turn or a build gets: what is asked for in a narrower place, within what the wider ones allow.

use std::collections::BTreeSet;

use stead_domain::Result;
use stead_domain::agent::Agent;
use stead_domain::network::{BuildNetworkPolicy, NetworkPolicy};
use stead_domain::ports::BuildNetwork;
use stead_domain::project::Project;

use crate::engine::Engine;
use crate::turns::TurnRequest;

impl Engine {
    /// Refuses a policy that goes beyond the deployment's, or that the provider does not enforce.
    pub(crate) fn check_network(&self, network: &NetworkPolicy) -> Result<()> {
        if !self.provider.capabilities().networks.contains(&network.mode()) {
            let message =
                format!("environments of this server cannot enforce a network that is {}", network.mode().as_str());
            return Err(stead_domain::Error::unsupported("network", message));
        }
        network.check_within(&self.settings.session_network, "this server")
    }

    /// The network of a new turn. What the turn itself asks for must fit; what its agent was configured with before the deployment
    /// became narrower is narrowed with it.
    pub(crate) fn network_for(&self, request: &TurnRequest, agent: &Agent) -> Result<NetworkPolicy> {
        let deployment = &self.settings.session_network;
        let usual = agent.network.as_ref().map_or_else(|| deployment.clone(), |network| network.within(deployment));
        let Some(asked) = &request.network else { return Ok(usual) };
        self.check_network(asked).map_err(|error| error.at("turn.network"))?;
        asked.check_within(&usual, "its agent").map_err(|error| error.at("turn.network"))?;
        Ok(asked.clone())
    }

    /// Refuses a policy for builds that goes beyond what the operator lets projects choose.
    pub(crate) fn check_build_network(&self, network: &BuildNetworkPolicy) -> Result<()> {
        let most = &self.settings.build_network_limit;
        if network.within(most) == *network {
            return Ok(());
        }
        let message = format!("`{network}` goes beyond what this server lets builds reach, which is `{most}`");
        Err(stead_domain::Error::invalid("project.build_network", message))
    }

    /// The network of a project's next build.
    pub(crate) fn build_network(&self, project: &Project) -> BuildNetworkPolicy {
        let chosen = project.build_network.as_ref().unwrap_or(&self.settings.build_network);
        chosen.within(&self.settings.build_network_limit)
    }

    /// What to say of hosts that a step was refused: which they are, and what helps.
    pub(crate) fn refused_hosts(&self, network: &BuildNetworkPolicy, hosts: &BTreeSet<String>) -> Option<String> {
        let reached = self.reach(network);
        let is_open = |host: &str| match &reached {
            BuildNetwork::Restricted(open) => {
                open.iter().any(|entry| entry == host || without_port(entry).is_some_and(|name| name == host))
            }
            BuildNetwork::Enabled(_) => without_port(host).is_none(),
            BuildNetwork::Disabled | BuildNetwork::Only(_) => false,
        };
        let (denied, beyond): (Vec<&str>, Vec<&str>) = hosts.iter().map(String::as_str).partition(|host| is_open(host));
        let quoted = |hosts: &[&str]| format!("`{}`", hosts.join("`, `"));
        let mut said = Vec::new();
        if !beyond.is_empty() && *network == BuildNetworkPolicy::Enabled {
            said.push(format!(
                "{} cannot be reached, as builds do not open the port; the operator can add the host with its port to \
                 `builds.registries`",
                quoted(&beyond)
            ));
        } else if !beyond.is_empty() {
            said.push(format!(
                "{} cannot be reached, as the build's network is `{}`; the project's build network can name such hosts or be \
                 `enabled`, and the operator can add registries to `builds.registries`",
                quoted(&beyond),
                network.as_str()
            ));
        }
        if !denied.is_empty() {
            said.push(format!(
                "{} has no address that builds may reach; the operator can name hosts of an own network in `builds.registry_hosts`",
                quoted(&denied)
            ));
        }
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// What the steps of a build with this policy reach.
    pub(crate) fn reach(&self, network: &BuildNetworkPolicy) -> BuildNetwork {
        let besides = |hosts: &mut dyn Iterator<Item = &str>| -> BTreeSet<String> {
            self.settings.registries.iter().cloned().chain(hosts.map(str::to_owned)).collect()
        };
        match network {
            BuildNetworkPolicy::Disabled => BuildNetwork::Disabled,
            BuildNetworkPolicy::Registries => BuildNetwork::Restricted(besides(&mut std::iter::empty())),
            BuildNetworkPolicy::Restricted(hosts) => BuildNetwork::Restricted(besides(&mut hosts.iter())),
            BuildNetworkPolicy::Enabled => BuildNetwork::Enabled(self.settings.registries.clone()),
        }
    }
}

/// The host in `host:port`; nothing where there is no port.
fn without_port(text: &str) -> Option<&str> {
    let (host, port) = text.rsplit_once(':')?;
    port.bytes().all(|byte| byte.is_ascii_digit()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn ports_are_told_from_addresses() {
        for (text, host) in [
            ("a.example", None),
            ("a.example:8443", Some("a.example")),
            ("[fd00::1]", None),
            ("[fd00::1]:8443", Some("[fd00::1]")),
            ("10.0.0.7:3141", Some("10.0.0.7")),
        ] {
            assert_eq!(without_port(text), host, "{text}");
        }
    }
}
