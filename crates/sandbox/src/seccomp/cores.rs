//! The bound on core files stays what the launcher made it, 1: where the host pipes cores to a program, 1 keeps the kernel from
//! running that program (as root, outside) and 0 does not.
//!
//! Many programs set the bound to 0 and some end when they are refused, so they are told that they succeeded; there is no core
//! file with either.

use seccompiler::{BpfProgram, sock_filter};

use super::ranges::{JUMP_IF_EQUAL, LOAD_WORD, NUMBER_OFFSET, RETURN, instruction};

/// `SECCOMP_RET_ERRNO` with no error: the call is not made and answers 0.
const DONE: u32 = libc::SECCOMP_RET_ERRNO;

/// Where the filter's data holds the lower half of an argument; the upper one is four bytes on.
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// Instructions that answer every change of the bound, with the number already loaded, and still loaded for what follows.
pub(super) fn keep_bound() -> BpfProgram {
    let load = |offset| instruction(LOAD_WORD, 0, 0, offset);
    let reload = load(NUMBER_OFFSET);
    let equal = |value: u32, if_true: u8, if_false: u8| instruction(JUMP_IF_EQUAL, if_true, if_false, value);
    let done = instruction(RETURN, 0, 0, DONE);
    let core = libc::RLIMIT_CORE;
    let instructions: [sock_filter; 14] = [
        equal(libc::SYS_prlimit64 as u32, 0, 8),
        // A null pointer in place of new limits asks and changes nothing.
        load(argument(2)),
        equal(0, 0, 2),
        load(argument(2) + 4),
        equal(0, 3, 0),
        load(argument(1)),
        equal(core, 0, 1),
        done.clone(),
        reload.clone(),
        equal(libc::SYS_setrlimit as u32, 0, 4),
        load(argument(0)),
        equal(core, 0, 1),
        done,
        reload,
    ];
    instructions.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the instructions answer for a call: an immediate answer, or the word that is loaded at their end.
    fn answer(number: i64, arguments: [u64; 3]) -> Result<u32, u32> {
        let program = keep_bound();
        let (mut at, mut word) = (0, number as u32);
        while let Some(step) = program.get(at) {
            at += 1;
            match step.code {
                RETURN => return Ok(step.k),
                JUMP_IF_EQUAL => at += usize::from(if word == step.k { step.jt } else { step.jf }),
                _ if step.k == NUMBER_OFFSET => word = number as u32,
                _ => {
                    let (index, upper) = ((step.k - 16) / 8, (step.k - 16) % 8 == 4);
                    word = (arguments[index as usize] >> if upper { 32 } else { 0 }) as u32;
                }
            }
        }
        Err(word)
    }

    #[test]
    fn only_changes_of_this_bound_are_answered() {
        let (core, files) = (libc::RLIMIT_CORE.into(), libc::RLIMIT_NOFILE.into());
        let (prlimit, setrlimit) = (libc::SYS_prlimit64, libc::SYS_setrlimit);
        for pointer in [0x1000, 0x7fff_0000_0000, 1 << 32] {
            assert_eq!(answer(prlimit, [0, core, pointer]), Ok(DONE));
            assert_eq!(answer(prlimit, [0, files, pointer]), Err(prlimit as u32));
        }
        assert_eq!(answer(prlimit, [0, core, 0]), Err(prlimit as u32), "asking is let through");
        assert_eq!(answer(setrlimit, [core, 0x1000, 0]), Ok(DONE));
        assert_eq!(answer(setrlimit, [files, 0x1000, 0]), Err(setrlimit as u32));
        assert_eq!(answer(libc::SYS_read, [core, core, 0x1000]), Err(libc::SYS_read as u32));
    }
}
