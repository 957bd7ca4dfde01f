//! What the routes stand on.

use stead_engine::Engine;

/// What the operator decided about this face.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Serves the environments chapter although discovery does not promise it yet. Without it each of its paths is 404.
    pub environments_preview: bool,
}

/// The engine and the operator's decisions. Cheap to clone.
#[derive(Clone)]
pub struct FaceState {
    /// The use cases.
    pub engine: Engine,
    /// What the operator decided.
    pub settings: Settings,
}
