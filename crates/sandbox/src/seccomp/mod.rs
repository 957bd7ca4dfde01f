//! The system call filter: an allow-list (`table`) compiled to BPF.
//!
//! Answers, in the order in which they are decided: a foreign architecture kills the process; the x32
//! range is refused with `EPERM`; `clone3` says `ENOSYS`, so that the C library falls back to `clone`,
//! whose flags can be examined; calls newer than the table say `ENOSYS`, which programs expect of an
//! old kernel; a change of the bound on core files is not made (see `cores`); space on disk is taken by writing
//! alone (see `space`); what the table allows passes; calls with rules about their arguments are examined;
//! everything else says `EPERM`.
//!
//! The kernel runs a new filter once for every call number there is, so its length is paid at every
//! start: the table is compiled to ranges by `ranges`, and only the rules are left to `seccompiler`.

mod cores;
mod helper;
mod ranges;
mod rules;
mod space;
mod table;

use std::collections::BTreeMap;

use seccompiler::{BackendError, BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch};

use ranges::{
    ARCHITECTURE_OFFSET, AUDIT_ARCHITECTURE, JUMP_IF_AT_LEAST, JUMP_IF_EQUAL, LOAD_WORD, NUMBER_OFFSET, RETURN,
    instruction,
};
use table::{ALLOWED, ALLOWED_ON_THIS_ARCHITECTURE, NEWEST_KNOWN_CALL};

/// Set in the number of every x32 call, which the kernel takes under the same architecture word.
const X32_BIT: u32 = 0x4000_0000;

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
pub enum SeccompError {
    /// This build's processor has no table.
    #[error("no system call table for this architecture")]
    Architecture,
    /// The table does not compile.
    #[error("the system call table cannot be compiled")]
    Compile(#[source] BackendError),
    /// The kernel took no filter.
    #[error("the kernel refused the filter: {0}")]
    Load(String),
}

/// Compiles the filter for this architecture.
///
/// # Errors
/// When the architecture has no table.
pub fn compile() -> Result<BpfProgram, SeccompError> {
    let allowed = ALLOWED.iter().chain(ALLOWED_ON_THIS_ARCHITECTURE).copied();
    compile_list(allowed, rules::by_argument())
}

/// Compiles the narrower filter of a helper process, good for the process that calls this alone.
pub(crate) fn compile_for_helper() -> Result<BpfProgram, SeccompError> {
    let allowed =
        ALLOWED.iter().filter(|number| !helper::LEFT_OUT.contains(number)).chain(helper::OLDER_FORMS).copied();
    compile_list(allowed, helper::by_argument())
}

fn compile_list(
    allowed: impl Iterator<Item = i64>,
    rules: Result<Vec<(i64, Vec<SeccompRule>)>, BackendError>,
) -> Result<BpfProgram, SeccompError> {
    let architecture: TargetArch = std::env::consts::ARCH.try_into().map_err(|_| SeccompError::Architecture)?;
    let calls: BTreeMap<i64, Vec<SeccompRule>> = rules.map_err(SeccompError::Compile)?.into_iter().collect();
    let filter =
        SeccompFilter::new(calls, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow, architecture)
            .map_err(SeccompError::Compile)?;
    let by_argument: BpfProgram = filter.try_into().map_err(SeccompError::Compile)?;
    let mut program = preamble();
    program.extend(cores::keep_bound());
    program.extend(space::only_by_writing());
    program.extend(ranges::allow(allowed));
    program.extend(by_argument);
    Ok(program)
}

/// Loads the filter into this thread for good. Also sets `no_new_privs`.
///
/// # Errors
/// When the kernel refuses it.
pub fn load(program: &BpfProgram) -> Result<(), SeccompError> {
    seccompiler::apply_filter(program).map_err(|error| SeccompError::Load(error.to_string()))
}

/// What comes before the allow-list.
fn preamble() -> BpfProgram {
    let refuse = |errno: i32| libc::SECCOMP_RET_ERRNO | errno as u32;
    vec![
        instruction(LOAD_WORD, 0, 0, ARCHITECTURE_OFFSET),
        instruction(JUMP_IF_EQUAL, 1, 0, AUDIT_ARCHITECTURE),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        instruction(LOAD_WORD, 0, 0, NUMBER_OFFSET),
        instruction(JUMP_IF_AT_LEAST, 0, 1, X32_BIT),
        instruction(RETURN, 0, 0, refuse(libc::EPERM)),
        instruction(JUMP_IF_EQUAL, 1, 0, libc::SYS_clone3 as u32),
        instruction(JUMP_IF_AT_LEAST, 0, 1, NEWEST_KNOWN_CALL + 1),
        instruction(RETURN, 0, 0, refuse(libc::ENOSYS)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_must_be_refused_is_in_the_table() {
        let refused = [
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_clone3,
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_fsopen,
            libc::SYS_fsconfig,
            libc::SYS_fsmount,
            libc::SYS_fspick,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_mount_setattr,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_userfaultfd,
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_enter,
            libc::SYS_io_uring_register,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_delete_module,
            libc::SYS_kexec_load,
            libc::SYS_kexec_file_load,
            libc::SYS_reboot,
            libc::SYS_swapon,
            libc::SYS_swapoff,
            libc::SYS_clock_settime,
            libc::SYS_clock_adjtime,
            libc::SYS_settimeofday,
            libc::SYS_adjtimex,
            libc::SYS_open_by_handle_at,
            libc::SYS_name_to_handle_at,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_quotactl,
            libc::SYS_quotactl_fd,
            libc::SYS_acct,
            libc::SYS_lookup_dcookie,
            libc::SYS_syslog,
            libc::SYS_kcmp,
            libc::SYS_fanotify_init,
            libc::SYS_move_pages,
            libc::SYS_migrate_pages,
            libc::SYS_mbind,
            libc::SYS_get_mempolicy,
            libc::SYS_set_mempolicy,
            libc::SYS_set_mempolicy_home_node,
            libc::SYS_memfd_secret,
            libc::SYS_process_madvise,
            libc::SYS_process_mrelease,
            libc::SYS_io_setup,
            libc::SYS_fanotify_mark,
            libc::SYS_setdomainname,
            libc::SYS_vhangup,
            libc::SYS_sethostname,
        ];
        for number in refused {
            assert!(!ALLOWED.contains(&number) && !ALLOWED_ON_THIS_ARCHITECTURE.contains(&number), "{number}");
        }
        let by_argument = rules::by_argument().unwrap();
        let argued = [
            libc::SYS_clone,
            libc::SYS_socket,
            libc::SYS_socketpair,
            libc::SYS_ioctl,
            libc::SYS_prctl,
            libc::SYS_personality,
            libc::SYS_prlimit64,
        ];
        for number in argued {
            assert!(!ALLOWED.contains(&number), "{number} is allowed without looking at its arguments");
            assert!(by_argument.iter().any(|(with_rules, rules)| *with_rules == number && !rules.is_empty()));
        }
        let program = compile().unwrap();
        assert!(program.len() < 400, "{} instructions", program.len());
    }
}
