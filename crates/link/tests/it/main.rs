//! The surface of the protocol, frozen per generation.

#![expect(clippy::unwrap_used, reason = "a test may panic, and so may what it calls")]

mod surface;
