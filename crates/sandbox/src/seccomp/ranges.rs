//! The allow-list as BPF: runs of consecutive call numbers, each two comparisons.

use seccompiler::{BpfProgram, sock_filter};

pub(super) const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
pub(super) const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
pub(super) const JUMP_IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
pub(super) const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Where the filter's data holds the call's number.
pub(super) const NUMBER_OFFSET: u32 = 0;
/// Where the filter's data holds the architecture.
pub(super) const ARCHITECTURE_OFFSET: u32 = 4;

/// The kernel's word for this build's architecture (`linux/audit.h`). On one without a table
/// compilation ends before this is used.
pub(super) const AUDIT_ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") {
    0xC000_003E
} else if cfg!(target_arch = "aarch64") {
    0xC000_00B7
} else {
    0
};

pub(super) fn instruction(code: u16, if_true: u8, if_false: u8, value: u32) -> sock_filter {
    sock_filter { code, jt: if_true, jf: if_false, k: value }
}

/// Instructions that allow exactly these calls, with the number already loaded; any other falls
/// through to what follows.
pub(super) fn allow(numbers: impl Iterator<Item = i64>) -> BpfProgram {
    runs(numbers)
        .into_iter()
        .flat_map(|(first, last)| {
            [
                instruction(JUMP_IF_AT_LEAST, 2, 0, last + 1),
                instruction(JUMP_IF_AT_LEAST, 0, 1, first),
                instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
            ]
        })
        .collect()
}

/// First and last of each run of consecutive numbers, ascending.
fn runs(numbers: impl Iterator<Item = i64>) -> Vec<(u32, u32)> {
    let mut sorted: Vec<u32> = numbers.map(|number| number as u32).collect();
    sorted.sort_unstable();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in sorted {
        match runs.last_mut() {
            Some((_, last)) if number <= *last + 1 => *last = number,
            _ => runs.push((number, number)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the instructions answer for a number: whether it was allowed.
    fn allows(program: &BpfProgram, number: u32) -> bool {
        let mut at = 0;
        while let Some(step) = program.get(at) {
            at += 1;
            if step.code == RETURN {
                return step.k == libc::SECCOMP_RET_ALLOW;
            }
            at += usize::from(if number >= step.k { step.jt } else { step.jf });
        }
        false
    }

    #[test]
    fn exactly_the_listed_numbers_pass() {
        let listed = [7, 0, 1, 2, 3, 9, 100, 101, 3];
        assert_eq!(runs(listed.into_iter()), [(0, 3), (7, 7), (9, 9), (100, 101)]);
        let program = allow(listed.into_iter());
        for number in 0..200 {
            assert_eq!(allows(&program, number), listed.contains(&i64::from(number)), "{number}");
        }
    }
}
