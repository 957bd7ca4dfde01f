//! Doubles of ports: a store that fails, logs on a full disk, and a machine on which commands do what a test says.

mod logs;
mod machine;
mod script;
mod store;

pub use logs::FaultyLogs;
pub use machine::Machine;
pub use store::{CommitFate, FaultyStore};
