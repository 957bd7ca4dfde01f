//! `GET /v1/uhp` (UHP §3).

use schemars::JsonSchema;
use serde::Serialize;

use crate::version::{VERSION, VERSIONS};

/// What this server can do. Nothing in it depends on who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Discovery {
    object: &'static str,
    protocol: &'static str,
    versions: [&'static str; VERSIONS.len()],
    default_version: &'static str,
    conformance_class: &'static str,
    capabilities: Capabilities,
    implementation: Implementation,
}

/// Each capability is a promise to serve its whole chapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
struct Capabilities {
    streaming: bool,
    sessions: bool,
    cancellation: bool,
    files_input: bool,
    files_output: bool,
    session_listing: bool,
    harness_management: bool,
    session_sharing: bool,
    idempotency: bool,
    plugins: bool,
    environments: bool,
    /// An addition: streams go on behind an event that a client has seen.
    stead_stream_resumption: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
struct Implementation {
    name: &'static str,
    version: &'static str,
}

impl Discovery {
    /// What is really served. The class is `extended`: `full` needs skills and MCP servers on harnesses, which are refused by
    /// name.
    pub fn current() -> Self {
        Self {
            object: "uhp.discovery",
            protocol: "uhp",
            versions: VERSIONS,
            default_version: VERSION,
            conformance_class: "extended",
            capabilities: Capabilities {
                streaming: true,
                sessions: true,
                cancellation: true,
                files_input: true,
                files_output: true,
                session_listing: true,
                harness_management: true,
                session_sharing: false,
                idempotency: true,
                plugins: false,
                environments: true,
                stead_stream_resumption: true,
            },
            implementation: Implementation { name: "stead", version: env!("CARGO_PKG_VERSION") },
        }
    }
}
