//! The blob port's promises on a real directory.

mod local;
