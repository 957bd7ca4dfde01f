//! Whose a sandbox's user namespace is.
//!
//! The kernel counts what is used in a user namespace (instances for watching files, locked memory, queued signals and messages,
//! namespaces) against its maker as well, and bounds that. Were all sandboxes made by the service's root, they and the host's root
//! would live from one purse, which one of them could empty. So each is made by the first of its own ids.

use rustix::process::Uid;

use crate::message::{AtStep, Failure, Step};
use crate::plan::Ids;

/// Becomes the maker of the next user namespace, in name alone: the saved id stays the service's, and files are still opened as
/// the service (the control group that the child is to be born in must be writable). An ordinary user stays who it is.
pub(super) fn assume(ids: Ids) -> Result<(), Failure> {
    let Ids::Range { first, .. } = ids else { return Ok(()) };
    rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::from_raw(first), Uid::ROOT).at(Step::Clone, "maker")?;
    // SAFETY: takes a plain number and touches no memory. It says what the id was before, and never that it failed; then the
    // child is moved into its control group after its birth.
    #[expect(unsafe_code, reason = "no safe wrapper of setfsuid exists")]
    unsafe {
        libc::setfsuid(0)
    };
    Ok(())
}

/// Becomes the service again.
pub(super) fn resume(ids: Ids) -> Result<(), Failure> {
    match ids {
        Ids::Range { .. } => {
            rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).at(Step::Clone, "maker")
        }
        Ids::Own => Ok(()),
    }
}
