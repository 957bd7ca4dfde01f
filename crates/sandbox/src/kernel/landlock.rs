//! The generation of Landlock rules this kernel knows.

use std::io;

const ASK_FOR_GENERATION: u32 = 1;

/// Generation, counted from 1.
pub(crate) fn landlock_generation() -> io::Result<i64> {
    // SAFETY: with a null structure of size 0 and this flag the call only returns a number.
    #[expect(unsafe_code, reason = "the landlock crate does not tell the generation")]
    let outcome = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, ASK_FOR_GENERATION)
    };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome) }
}
