//! What the clients of a server know, kept by themselves: what they asked for, what was acknowledged and with which contents.
//! It is the measure of a server that is killed again and again, so nothing in it comes from the server's own rows.
//!
//! A request whose answer was lost leaves two possible states, the one before it and the one after it ([`Known`]). The next look
//! at the server decides between them, and finds any third state to be wrong.

mod counter;
mod known;
mod project;
mod random;
mod task;

pub use counter::Counter;
pub use known::Known;
pub use project::{Build, Project, Tree};
pub use random::Random;
pub use task::{Cancel, End, Session, Task};
