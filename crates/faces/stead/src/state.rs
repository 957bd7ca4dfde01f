//! What every handler is given.

use std::sync::Arc;

use bytes::Bytes;
use stead_engine::Engine;
use stead_face_frame::Streams;

use crate::wire;

/// The engine and what this server says about itself.
#[derive(Clone)]
pub struct FaceState {
    /// The use cases.
    pub engine: Engine,
    /// The answer of `GET /stead/v1/server`.
    pub server: Arc<wire::Server>,
    /// The answer of `GET /stead/v1/openapi.json`.
    pub document: Bytes,
    /// How many streams may be open.
    pub streams: Streams,
}
