//! What the routes stand on.

use stead_engine::Engine;

/// The engine. Cheap to clone.
#[derive(Clone)]
pub struct FaceState {
    /// The use cases.
    pub engine: Engine,
}
