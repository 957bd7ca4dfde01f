//! The blob port's promises on a real directory.

mod collection;
mod killed;
mod local;
