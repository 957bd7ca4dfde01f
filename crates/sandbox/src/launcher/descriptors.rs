//! Which descriptors and signal settings the program finds.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::Placed;
use crate::message::{AtStep, Failure, Step, refuse};
use crate::plan::FIRST_WORKING_DESCRIPTOR;

/// Signals are numbered from 1 to this.
const LAST_SIGNAL: i32 = 64;
/// Size of the kernel's signal set.
const SIGNAL_SET_BYTES: usize = 8;
/// More than the kernel's `sigaction` has on any architecture of ours.
const KERNEL_SIGACTION_WORDS: usize = 8;

/// Moves a descriptor out of the way of the program's numbers; it closes itself on `exec`.
pub(super) fn lift(descriptor: &OwnedFd) -> Result<OwnedFd, Failure> {
    rustix::io::fcntl_dupfd_cloexec(descriptor, FIRST_WORKING_DESCRIPTOR).at(Step::Descriptors, "moving")
}

/// Gives every handed-over descriptor its number, fills 0 to 2 with `/dev/null` where nothing was
/// handed over, and makes sure that nothing else survives the `exec`.
pub(super) fn arrange(descriptors: Vec<Placed>) -> Result<(), Failure> {
    let mut lifted: Vec<Option<OwnedFd>> = (0..FIRST_WORKING_DESCRIPTOR).map(|_| None).collect();
    for Placed { descriptor, target } in descriptors {
        let slot = usize::try_from(target).ok().and_then(|index| lifted.get_mut(index));
        let Some(slot @ None) = slot else {
            return Err(refuse(Step::Descriptors, target, "the number is out of range or taken"));
        };
        *slot = Some(lift(&descriptor)?);
    }
    for slot in lifted.iter_mut().take(3).filter(|slot| slot.is_none()) {
        let nothing = OpenOptions::new().read(true).write(true).open("/dev/null").at(Step::Descriptors, "/dev/null")?;
        *slot = Some(lift(&nothing.into())?);
    }
    // Everything first, and the placed ones after it: `dup2` clears the mark again.
    close_on_exec(0, i32::MAX).at(Step::Descriptors, "marking")?;
    for (target, slot) in lifted.iter().enumerate() {
        if let Some(descriptor) = slot {
            place(descriptor, target as i32).at(Step::Descriptors, target)?;
        }
    }
    Ok(())
}

/// Rust ignores `SIGPIPE`, and whoever started the service may have had others ignored; a program must
/// find the defaults and an empty mask. Asks the kernel directly, because the C library hides two of
/// the real-time signals.
pub(super) fn reset_signals() -> Result<(), Failure> {
    let default = [0_u64; KERNEL_SIGACTION_WORDS];
    for signal in 1..=LAST_SIGNAL {
        if signal == libc::SIGKILL || signal == libc::SIGSTOP {
            continue;
        }
        // SAFETY: an all-zero kernel sigaction means the default action with no flags; the buffer is at
        // least as long as the kernel's structure and only read. No safe wrapper exists.
        #[expect(unsafe_code, reason = "no safe wrapper of signal dispositions exists")]
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                SIGNAL_SET_BYTES,
            )
        };
        if outcome != 0 {
            return Err(io::Error::last_os_error()).at(Step::Descriptors, format!("signal {signal}"));
        }
    }
    let none = 0_u64;
    // SAFETY: reads one 64-bit set from this frame.
    #[expect(unsafe_code, reason = "no safe wrapper of signal masks exists")]
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            std::ptr::null_mut::<u64>(),
            SIGNAL_SET_BYTES,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()).at(Step::Descriptors, "signal mask") }
}

fn place(descriptor: &OwnedFd, target: i32) -> io::Result<()> {
    // SAFETY: `target` is below the numbers this process works with, so no owned descriptor of ours
    // is replaced except standard ones; rustix asks for ownership of the target, which nobody has.
    #[expect(unsafe_code, reason = "the safe call needs an owner for the target number")]
    let outcome = unsafe { libc::dup2(descriptor.as_raw_fd(), target) };
    if outcome == target { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn close_on_exec(first: i32, last: i32) -> io::Result<()> {
    // SAFETY: only sets a flag; no descriptor is closed while this program runs.
    #[expect(unsafe_code, reason = "no safe wrapper of close_range exists")]
    let outcome = unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
