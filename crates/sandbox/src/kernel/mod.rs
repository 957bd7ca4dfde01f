//! Kernel calls that have no safe wrapper, one small file each. The only other places with `unsafe`
//! are the descriptor and exec steps of the launcher.

mod clone;
mod landlock;
mod mount;

pub(crate) use clone::{Cloned, NAMESPACES, clone_into_namespaces, has_clone3};
pub(crate) use landlock::landlock_generation;
pub(crate) use mount::{MountChange, change_mount};
