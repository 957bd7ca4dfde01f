//! Pure parsers of what users hand in: archives and the manifests inside them.
//!
//! Every byte that reaches this crate is untrusted. Its parsers never panic, never allocate from a length that the
//! input merely claims, and stop at the limits they are given. The crate writes no file, starts no task and knows
//! no other crate of the project, so that the server and the runtime can both use it and a fuzzer can drive it.
//!
//! * [`archive::read_archive`] streams a zip or tar into an [`archive::Sink`];
//! * [`path::BundlePath`] is a member's path once it is known to be safe;
//! * [`git`] judges the address of a repository and reads what git says of it;
//! * [`ignored`] names manifests that a build installs nothing from;
//! * [`manifest`] reads requirement files, `pyproject.toml`, `package.json`, the locks of their tools and `setup.sh`.

pub mod archive;
pub mod fuzzing;
pub mod git;
pub mod ignored;
pub mod manifest;
pub mod path;
