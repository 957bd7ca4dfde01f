//! What sessions may reach by default, and who lets them out.

use stead_domain::network::NetworkPolicy;

use super::Finding;
use crate::config::Settings;

pub(super) fn findings(settings: &Settings, is_root: bool) -> Vec<Finding> {
    let sessions = match &settings.sessions.network {
        NetworkPolicy::Disabled => {
            "sessions reach nothing but their own loopback, whatever their harness or task asks for"
        }
        NetworkPolicy::Restricted(_) => {
            "sessions reach the names of sessions.hosts through the proxy and nothing else; within a content delivery network \
             one name can lead to another"
        }
        NetworkPolicy::Enabled => {
            "sessions reach public addresses through the proxy; never private, local or metadata addresses, nor this host"
        }
    };
    let proxy = if is_root {
        Finding::good(
            "egress proxy",
            "a process of its own with a user id of its own, and no rights besides connecting",
        )
    } else {
        let text = "a process of its own; it has the service's user id, and Landlock and a filter of system calls are what \
                    keeps it from the service's files";
        Finding::partial("egress proxy", text, Some("run the service as root".to_owned()))
    };
    vec![Finding::good("sessions.network", sessions), proxy]
}
