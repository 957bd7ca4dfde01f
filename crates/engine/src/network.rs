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

    /// What the steps of a build with this policy reach.
    pub(crate) async fn reach(&self, network: &BuildNetworkPolicy) -> Result<BuildNetwork> {
        let registries = &self.tools.registries().await?.hosts;
        let besides = |hosts: &mut dyn Iterator<Item = &str>| -> BTreeSet<String> {
            registries.iter().cloned().chain(hosts.map(str::to_owned)).collect()
        };
        Ok(match network {
            BuildNetworkPolicy::Disabled => BuildNetwork::Disabled,
            BuildNetworkPolicy::Registries => BuildNetwork::Restricted(besides(&mut std::iter::empty())),
            BuildNetworkPolicy::Restricted(hosts) => BuildNetwork::Restricted(besides(&mut hosts.iter())),
            BuildNetworkPolicy::Enabled => BuildNetwork::Enabled(registries.clone()),
        })
    }
}
