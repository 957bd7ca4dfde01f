//! How what a sandbox writes to disk is bounded.

use super::{Feature, State};

/// The same on every file system: project quotas, where one has them, are not used.
pub(super) fn disk_quota() -> Feature {
    let explanation = "what a sandbox holds is measured every few seconds, and one over its bound is ended; it may pass the bound by what \
                       it writes meanwhile";
    Feature {
        name: "disk quota".to_string(),
        state: State::Partial,
        required: false,
        explanation: explanation.to_string(),
        fix: None,
    }
}
