//! What a sandbox may reach.

use serde::{Deserialize, Serialize};

/// The network of a session or a build. Private, link-local, metadata, reserved and the host's own addresses are denied in
/// every policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum NetworkPolicy {
    /// Loopback only.
    Disabled,
    /// The egress proxy with open names.
    #[default]
    Enabled,
}

impl NetworkPolicy {
    /// The policy as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            NetworkPolicy::Disabled => "disabled",
            NetworkPolicy::Enabled => "enabled",
        }
    }
}
