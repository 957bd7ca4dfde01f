//! `mount_setattr(2)`: changes a detached mount before anyone can use it, so that a read-only bind is
//! never writable for an instant.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// A change of a mount's attributes.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct MountChange<'a> {
    /// `MOUNT_ATTR_*` bits to set.
    pub(crate) set: u64,
    /// Also the mounts beneath.
    pub(crate) recursive: bool,
    /// User namespace whose mapping the mount applies to file owners.
    pub(crate) id_map: Option<BorrowedFd<'a>>,
}

/// Applies a change to the mount `tree` refers to and makes it private, so that nothing mounted or
/// unmounted elsewhere reaches it.
pub(crate) fn change_mount(tree: impl AsFd, change: MountChange<'_>) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: change.set | if change.id_map.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 },
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: change.id_map.map_or(0, |namespace| namespace.as_raw_fd() as u64),
    };
    let flags = libc::AT_EMPTY_PATH | if change.recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the descriptor is borrowed for the call, the path is a NUL-terminated literal, and the
    // attribute structure lives on this frame with its exact size given. rustix has no wrapper.
    #[expect(unsafe_code, reason = "no safe wrapper of mount_setattr exists")]
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
