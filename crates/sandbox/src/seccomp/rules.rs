//! Calls that are allowed for some arguments only. A call passes when one of its rules holds; a rule
//! holds when all its conditions do.

use seccompiler::{BackendError, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

/// Every flag of `clone` that makes a namespace.
const NAMESPACE_FLAGS: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// `PER_LINUX`: what every program starts with.
const PERSONALITY_DEFAULT: u64 = 0;
/// Asks for the personality without changing it.
const PERSONALITY_QUERY: u64 = 0xffff_ffff;

/// The calls with their rules.
pub(super) fn by_argument() -> Result<Vec<(i64, Vec<SeccompRule>)>, BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    Ok(vec![
        (libc::SYS_clone, vec![SeccompRule::new(vec![wide(0, MaskedEq(NAMESPACE_FLAGS), 0)?])?]),
        (
            // No vsock (it reaches the hypervisor's side from any namespace), no packet sockets, no
            // kernel cryptography; netlink only for routes, which the C library asks for addresses.
            libc::SYS_socket,
            vec![
                SeccompRule::new(vec![word(0, Eq, libc::AF_UNIX as u64)?])?,
                SeccompRule::new(vec![word(0, Eq, libc::AF_INET as u64)?])?,
                SeccompRule::new(vec![word(0, Eq, libc::AF_INET6 as u64)?])?,
                SeccompRule::new(vec![
                    word(0, Eq, libc::AF_NETLINK as u64)?,
                    word(2, Eq, libc::NETLINK_ROUTE as u64)?,
                ])?,
            ],
        ),
        (libc::SYS_socketpair, vec![SeccompRule::new(vec![word(0, Eq, libc::AF_UNIX as u64)?])?]),
        (
            // Putting characters into a terminal's input as if they had been typed.
            libc::SYS_ioctl,
            vec![SeccompRule::new(vec![word(1, Ne, libc::TIOCSTI)?, word(1, Ne, libc::TIOCLINUX as u64)?])?],
        ),
        (
            libc::SYS_personality,
            vec![
                SeccompRule::new(vec![word(0, Eq, PERSONALITY_DEFAULT)?])?,
                SeccompRule::new(vec![word(0, Eq, PERSONALITY_QUERY)?])?,
            ],
        ),
    ])
}

fn word(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn wide(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value)
}
