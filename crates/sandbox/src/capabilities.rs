//! Giving up capabilities, for sandboxes and for helpers of the service alike.

use caps::{CapSet, Capability};
use rustix::thread::CapabilitiesSecureBits;

use crate::message::{AtStep, Failure, Step, refuse};

/// Empties the ambient and the bounding set and locks the ways back. Needs `CAP_SETPCAP`.
pub(crate) fn lock() -> Result<(), Failure> {
    rustix::thread::clear_ambient_capability_set().at(Step::Privileges, "ambient capabilities")?;
    // By number, so that capabilities newer than our table go as well; the first unknown one ends it.
    for number in 0..64 {
        if !drop_from_bounding_set(number)? {
            break;
        }
    }
    let locked = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    rustix::thread::set_capabilities_secure_bits(locked).at(Step::Privileges, "secure bits")
}

/// Empties the sets the process has, and looks whether they are.
pub(crate) fn clear() -> Result<(), Failure> {
    for set in [CapSet::Effective, CapSet::Inheritable, CapSet::Permitted] {
        let failed = |error: caps::errors::CapsError| refuse(Step::Privileges, "capabilities", error.to_string());
        caps::clear(None, set).map_err(failed)?;
        let left = caps::read(None, set).map_err(failed)?;
        if !left.is_empty() {
            return Err(refuse(Step::Privileges, "capabilities", format!("{left:?} remain")));
        }
    }
    Ok(())
}

/// Whether the process may call [`lock`].
pub(crate) fn can_be_locked() -> Result<bool, Failure> {
    has(CapSet::Effective, Capability::CAP_SETPCAP)
}

/// Whether executing a program could give capabilities back.
pub(crate) fn can_be_gained() -> Result<bool, Failure> {
    has(CapSet::Bounding, Capability::CAP_SYS_ADMIN)
}

fn has(set: CapSet, capability: Capability) -> Result<bool, Failure> {
    caps::has_cap(None, set, capability).map_err(|error| refuse(Step::Privileges, "capabilities", error.to_string()))
}

/// Whether the kernel knows the capability.
fn drop_from_bounding_set(number: u32) -> Result<bool, Failure> {
    // SAFETY: PR_CAPBSET_DROP takes plain numbers and touches no memory.
    #[expect(unsafe_code, reason = "the safe wrappers refuse capabilities they have no name for")]
    let outcome = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) };
    if outcome == 0 {
        return Ok(true);
    }
    let error = std::io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EINVAL) && number > 0 {
        return Ok(false);
    }
    Err(error).at(Step::Privileges, "bounding set")
}
