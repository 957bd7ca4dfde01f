//! The engine on a machine that does what a test says: what it makes of crashes, hand-overs, and a store that fails.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod audit;
mod cost;
mod fixture;
mod growth;
mod handover;
mod line;
mod link;
mod sessions;
mod stopping;
mod store;
