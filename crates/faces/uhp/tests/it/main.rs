//! The face from outside: what it writes against the published schema, and what the router does before and with the engine.

mod objects;
mod schema;
mod streams;
