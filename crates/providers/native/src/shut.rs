//! Directories that a tenant has shut. Root passes through them all the same; an ordinary user, whose sandboxes are its own, owns them
//! and opens them first. Nothing may be running in the tree.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use rustix::path::Arg;

/// Opens the directory `name` of `parent` by `open`, which follows no link; what its owner may not do with it is allowed first.
pub(crate) fn open<P: Arg + Copy>(
    parent: BorrowedFd<'_>,
    name: P,
    open: impl Fn() -> rustix::io::Result<OwnedFd>,
) -> rustix::io::Result<OwnedFd> {
    if rustix::process::geteuid().is_root() {
        return open();
    }
    let directory = match open() {
        // A link would have been refused in another way.
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            open()?
        }
        outcome => outcome?,
    };
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&directory)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        rustix::fs::fchmod(&directory, mode | Mode::RWXU)?;
    }
    Ok(directory)
}
