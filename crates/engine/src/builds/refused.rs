//! Hosts that a step asked for and was refused: named in the log, and in the failure when it was the end of the step.

use std::collections::BTreeSet;

use stead_domain::build::{BuildFailureKind, Package};
use stead_domain::network::{AllowedHosts, BuildNetworkPolicy};
use stead_domain::ports::{BuildNetwork, BuildSandbox};
use stead_projects::plan::Step;

use super::schedule::StepRun;
use super::work::{Stopped, Work};
use crate::engine::Engine;

/// What is to be said of refused hosts.
#[derive(Debug, PartialEq, Eq)]
struct Refused {
    /// Which they are, and what helps.
    sentence: String,
    /// Those that the project's own policy could name.
    nameable: BTreeSet<String>,
}

impl Engine {
    /// Looks at what the step was refused. Installers say of a refused host what they say of any fault of a network, so that their words
    /// alone would send a reader looking elsewhere.
    pub(super) async fn tell_refused(
        &self,
        work: &Work,
        step: &Step,
        sandbox: &dyn BuildSandbox,
        run: &mut StepRun<'_>,
        ran: Result<Vec<Package>, Stopped>,
    ) -> Result<Vec<Package>, Stopped> {
        if !step.network {
            return ran;
        }
        let (reached, most) = (self.reach(&work.network).await?, &self.settings.build_network_limit);
        let Some(refused) = judge(&work.network, &reached, most, &sandbox.refused_hosts().await) else { return ran };
        run.log.line(&format!("{}: {}", step.name, refused.sentence)).await?;
        ran.map_err(|stopped| match stopped {
            Stopped::Failed(mut failure) if failure.kind == BuildFailureKind::Step => {
                failure.message = format!("{} ({})", failure.message, refused.sentence);
                failure.refused_hosts = refused.nameable;
                Stopped::Failed(failure)
            }
            stopped => stopped,
        })
    }
}

fn judge(
    network: &BuildNetworkPolicy,
    reached: &BuildNetwork,
    most: &BuildNetworkPolicy,
    hosts: &BTreeSet<String>,
) -> Option<Refused> {
    let is_open = |host: &str| match reached {
        BuildNetwork::Restricted(open) => {
            open.iter().any(|entry| entry == host || without_port(entry).is_some_and(|name| name == host))
        }
        BuildNetwork::Enabled(_) => without_port(host).is_none(),
        BuildNetwork::Disabled | BuildNetwork::Only(_) => false,
    };
    let could_name = |host: &&str| {
        let named = AllowedHosts::parse([*host]).map(BuildNetworkPolicy::Restricted);
        *network != BuildNetworkPolicy::Enabled && named.is_ok_and(|named| named.within(most) == named)
    };
    // Named and refused all the same: for where it leads to.
    let (denied, beyond): (Vec<&str>, Vec<&str>) = hosts.iter().map(String::as_str).partition(|host| is_open(host));
    let (nameable, others): (Vec<&str>, Vec<&str>) = beyond.into_iter().partition(could_name);
    let quoted = |hosts: &[&str]| format!("`{}`", hosts.join("`, `"));
    let mut said = Vec::new();
    if !nameable.is_empty() {
        said.push(format!(
            "{} cannot be reached, as the build's network is `{}`; the project's build network can name such hosts, or the operator in \
             `builds.registries`",
            quoted(&nameable),
            network.as_str()
        ));
    }
    if !others.is_empty() {
        said.push(format!(
            "{} cannot be reached, as the build's network is `{}`; the operator can name such hosts in `builds.registries`, those \
             of an own network in `builds.registry_hosts`",
            quoted(&others),
            network.as_str()
        ));
    }
    if !denied.is_empty() {
        said.push(format!(
            "{} has no address that builds may reach; the operator can name hosts of an own network in `builds.registry_hosts`",
            quoted(&denied)
        ));
    }
    let nameable = nameable.into_iter().map(str::to_owned).collect();
    (!said.is_empty()).then(|| Refused { sentence: said.join("; "), nameable })
}

/// The host in `host:port`; nothing where there is no port.
fn without_port(text: &str) -> Option<&str> {
    let (host, port) = text.rsplit_once(':')?;
    port.bytes().all(|byte| byte.is_ascii_digit()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(hosts: &[&str]) -> BTreeSet<String> {
        hosts.iter().map(|host| (*host).to_owned()).collect()
    }

    #[test]
    fn what_helps_depends_on_who_can_open_what() {
        let policy = |text: &str| text.parse::<BuildNetworkPolicy>().unwrap();
        let registries = BuildNetwork::Restricted(set(&["index.example", "mirror.example:8443"]));
        let enabled = BuildNetwork::Enabled(set(&[]));
        let asked = ["index.example", "mirror.example", "other.example", "10.0.0.1", "other.example:25"];
        for (network, reached, most, nameable, parts) in [
            (
                "registries",
                &registries,
                "enabled",
                set(&["other.example"]),
                vec![
                    "`other.example` cannot be reached, as the build's network is `registries`; the project's build network",
                    "`10.0.0.1`, `other.example:25` cannot be reached",
                    "`index.example`, `mirror.example` has no address",
                ],
            ),
            (
                "registries",
                &registries,
                "registries",
                set(&[]),
                vec!["`10.0.0.1`, `other.example`, `other.example:25` cannot"],
            ),
            (
                "enabled",
                &enabled,
                "enabled",
                set(&[]),
                vec!["`other.example:25` cannot", "`other.example` has no address"],
            ),
        ] {
            let refused = judge(&policy(network), reached, &policy(most), &set(&asked)).unwrap();
            assert_eq!(refused.nameable, nameable, "{network} {most}");
            for part in parts {
                assert!(refused.sentence.contains(part), "{part}\nin: {}", refused.sentence);
            }
        }
        assert_eq!(judge(&policy("registries"), &registries, &policy("enabled"), &set(&[])), None);
    }

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
