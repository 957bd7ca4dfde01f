//! The server killed while it is at work.
//!
//! * [`moments`]: one moment, one piece of work.
//! * [`rounds`]: ten clients at once and kills at seeded moments, round after round on one data directory.
//! * [`blows`]: the same clients while something else is hit: a sandbox, the proxy, the store, the disk, the whole machine.
//!
//! The measure of the last two is what the clients know ([`stead_testkit::ledger`]) and what lies on the machine, never the
//! server's own rows.

mod blows;
mod client;
mod leftovers;
mod moments;
mod oracle;
mod postgres;
mod projects;
mod requests;
mod rounds;
mod tasks;
mod team;
