//! What every handler is given.

use std::sync::Arc;

use stead_engine::Engine;

use crate::wire;

/// The engine and what this server says about itself.
#[derive(Clone)]
pub struct FaceState {
    /// The use cases.
    pub engine: Engine,
    /// The answer of `GET /stead/v1/server`.
    pub server: Arc<wire::Server>,
}
