//! Space on disk is taken by writing only. `fallocate` takes as much as there is in one call, in no time, and neither a limit on
//! one file nor a look from time to time could keep it from filling the disk; programs that are told that a file system does not have
//! it write instead. Giving space back stays.

use seccompiler::{BpfProgram, sock_filter};

use super::ranges::{JUMP_IF_EQUAL, LOAD_WORD, NUMBER_OFFSET, RETURN, instruction};

/// Where the filter's data holds the lower half of the mode, which is a 32-bit word.
const MODE: u32 = 16 + 8;
/// The one mode that frees space and changes no size.
const FREEING: u32 = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32;

/// Instructions that answer every call which would take space, with the number already loaded, and still loaded for what follows.
pub(super) fn only_by_writing() -> BpfProgram {
    let instructions: [sock_filter; 5] = [
        instruction(JUMP_IF_EQUAL, 0, 4, libc::SYS_fallocate as u32),
        instruction(LOAD_WORD, 0, 0, MODE),
        instruction(JUMP_IF_EQUAL, 1, 0, FREEING),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EOPNOTSUPP as u32),
        instruction(LOAD_WORD, 0, 0, NUMBER_OFFSET),
    ];
    instructions.to_vec()
}
