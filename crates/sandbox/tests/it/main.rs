//! Real sandboxes, made by the launcher binary: every test runs as root and, in a second run that `ordinary` starts, as an
//! ordinary user.

#[cfg(test)]
mod ahead;
mod calls;
mod confine;
mod escapes;
#[cfg(test)]
mod fixture;
mod limits;
mod mounts;
#[cfg(test)]
mod ordinary;
mod start;
mod usage;
