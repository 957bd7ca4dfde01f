//! What a helper process of the service may call: the sandbox's list without processes, files to write, local sockets and
//! listening. It may accept at a socket that was handed to it.

use seccompiler::{BackendError, SeccompCmpOp, SeccompRule};

use super::rules::{self, word};

/// Calls of the sandbox's list that a helper has no use for. Making files is left out even where Landlock forbids it anyway, for
/// hosts without it; so is everything of the host's `ipc` namespace, in which a helper is.
#[rustfmt::skip]
pub(super) const LEFT_OUT: &[i64] = &[
    libc::SYS_chdir, libc::SYS_execve, libc::SYS_execveat, libc::SYS_fallocate, libc::SYS_fchmod, libc::SYS_fchmodat,
    libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_fremovexattr, libc::SYS_fsetxattr, libc::SYS_ftruncate,
    libc::SYS_kill, libc::SYS_linkat, libc::SYS_listen, libc::SYS_lremovexattr, libc::SYS_lsetxattr, libc::SYS_mkdirat,
    libc::SYS_mknodat, libc::SYS_mq_getsetattr, libc::SYS_mq_notify, libc::SYS_mq_open, libc::SYS_mq_timedreceive,
    libc::SYS_mq_timedsend, libc::SYS_mq_unlink, libc::SYS_msgctl, libc::SYS_msgget, libc::SYS_msgrcv,
    libc::SYS_msgsnd, libc::SYS_openat, libc::SYS_openat2, libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal,
    libc::SYS_removexattr, libc::SYS_renameat2, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_semctl, libc::SYS_semget, libc::SYS_semop, libc::SYS_semtimedop, libc::SYS_setfsgid,
    libc::SYS_setfsuid, libc::SYS_setgid, libc::SYS_setgroups, libc::SYS_setregid, libc::SYS_setresgid,
    libc::SYS_setresuid, libc::SYS_setreuid, libc::SYS_setuid, libc::SYS_setxattr, libc::SYS_shmat,
    libc::SYS_shmctl, libc::SYS_shmdt, libc::SYS_shmget, libc::SYS_symlinkat, libc::SYS_sync, libc::SYS_syncfs,
    libc::SYS_tgkill, libc::SYS_tkill, libc::SYS_truncate, libc::SYS_unlinkat, libc::SYS_utimensat,
];

/// Older forms of calls that C libraries still use for what a helper does.
#[cfg(target_arch = "x86_64")]
pub(super) const OLDER_FORMS: &[i64] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_getdents,
    libc::SYS_getrlimit,
    libc::SYS_lstat,
    libc::SYS_pause,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
];
/// None on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OLDER_FORMS: &[i64] = &[];

/// Flags with which opening a file could change or make one.
const WRITING: u64 = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | O_TMPFILE_ALONE) as u64;
/// `O_TMPFILE` without the flag for directories that libc's constant includes.
const O_TMPFILE_ALONE: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// The calls with rules: the sandbox's, but threads instead of processes, no local sockets, files for reading, and signals to
/// threads of its own alone (which is how a program ends itself).
pub(super) fn by_argument() -> Result<Vec<(i64, Vec<SeccompRule>)>, BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq};
    let own_process = u64::from(std::process::id());
    let mut calls: Vec<_> = rules::by_argument()?
        .into_iter()
        .filter(|(number, _)| ![libc::SYS_clone, libc::SYS_socket, libc::SYS_socketpair].contains(number))
        .collect();
    calls.extend([
        (libc::SYS_clone, vec![rules::no_namespaces_and(vec![word(0, MaskedEq(THREAD), THREAD)?])?]),
        (libc::SYS_socket, rules::sockets_of_the_network()?),
        // A pair of datagram sockets could be turned towards any local socket of the host.
        (libc::SYS_socketpair, vec![rules::local_pairs_and(vec![rules::socket_type(libc::SOCK_STREAM)?])?]),
        (libc::SYS_openat, vec![SeccompRule::new(vec![word(2, MaskedEq(WRITING), 0)?])?]),
        (libc::SYS_tgkill, vec![SeccompRule::new(vec![word(0, Eq, own_process)?])?]),
    ]);
    #[cfg(target_arch = "x86_64")]
    calls.push((libc::SYS_open, vec![SeccompRule::new(vec![word(1, MaskedEq(WRITING), 0)?])?]));
    Ok(calls)
}

/// What makes `clone` start a thread.
const THREAD: u64 = libc::CLONE_THREAD as u64;
