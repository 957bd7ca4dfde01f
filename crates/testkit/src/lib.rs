//! What tests of every crate share; never shipped.
//!
//! * [`database`]: a database of its own for each test, on SQLite and on PostgreSQL.
//! * [`doubles`]: ports that fail, and a machine on which commands do what a test says.
//! * [`clock`] and [`ids`]: time and identity that a test decides.
//! * [`ledger`]: what the clients of a server know, the measure of one that is killed again and again.
//! * [`rows`]: how many there are of which sort.
//! * [`samples`]: rows that are right in themselves, to be changed where a test needs it.
#![warn(missing_docs)]

pub mod clock;
pub mod database;
pub mod doubles;
pub mod ids;
pub mod ledger;
pub mod rows;
pub mod samples;

pub use clock::{ManualClock, SystemClock};
pub use database::TestDatabase;
pub use ids::SeededIds;
pub use samples::Samples;
