//! What the routes stand on.

use stead_engine::Engine;
use stead_face_frame::Streams;

/// The engine. Cheap to clone.
#[derive(Clone)]
pub struct FaceState {
    /// The use cases.
    pub engine: Engine,
    /// How many streams may be open.
    pub streams: Streams,
}
