//! Calls that are allowed for some arguments only. A call passes when one of its rules holds; a rule
//! holds when all its conditions do.

use seccompiler::{BackendError, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

/// Every flag of `clone` that makes a namespace. The one for time is part of the exit signal in this call, where no signal has
/// such a number.
const NAMESPACE_FLAGS: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | CLONE_NEWTIME) as u64;

/// The constant of `linux/sched.h`, which libc lacks.
const CLONE_NEWTIME: i32 = 0x80;

/// Requests of `ioctl` about terminals: the first two put characters into a terminal's input as if they had been typed, the
/// third has old protocol code of the kernel take a terminal over.
const REFUSED_TERMINAL_REQUESTS: [u64; 3] = [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD];

/// The constant of `linux/prctl.h`, which libc lacks.
const PR_SET_IO_FLUSHER: u64 = 57;

/// Options of `prctl` that are refused: another account of where a program's memory is, being spared when memory is written
/// back, and keeping the other half of a processor's core idle, which no bound on processor time would count.
const REFUSED_PROCESS_OPTIONS: [u64; 3] = [libc::PR_SET_MM as u64, PR_SET_IO_FLUSHER, libc::PR_SCHED_CORE as u64];

/// Commands of `fcntl` that are refused: a lease or a delegation makes everybody else who opens the file wait, also in other
/// sandboxes that see it, for as long as the kernel lets its holder think; a watch on a directory tells who uses it.
const REFUSED_FILE_COMMANDS: [u64; 3] = [libc::F_SETLEASE as u64, libc::F_NOTIFY as u64, F_SETDELEG];
/// Newer than libc's table.
const F_SETDELEG: u64 = 1040;

/// Type and protocol; 0 is the type's own protocol.
const INTERNET_SOCKETS: [(i32, i32); 6] = [
    (libc::SOCK_STREAM, 0),
    (libc::SOCK_STREAM, libc::IPPROTO_TCP),
    (libc::SOCK_DGRAM, 0),
    (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
    (libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
    (libc::SOCK_DGRAM, libc::IPPROTO_ICMPV6),
];
/// The rest of a socket's type are flags.
const SOCKET_TYPE_MASK: u64 = 0xf;

/// The process that `prlimit` takes for its caller.
const CALLER: u64 = 0;
/// The null pointer: no limit is changed.
const NO_NEW_LIMIT: u64 = 0;

/// `PER_LINUX`: what every program starts with.
const PERSONALITY_DEFAULT: u64 = 0;
/// Asks for the personality without changing it.
const PERSONALITY_QUERY: u64 = 0xffff_ffff;

/// The calls with their rules.
pub(super) fn by_argument() -> Result<Vec<(i64, Vec<SeccompRule>)>, BackendError> {
    use SeccompCmpOp::Eq;
    Ok(vec![
        (libc::SYS_clone, vec![no_namespaces_and(Vec::new())?]),
        (libc::SYS_socket, sockets()?),
        (libc::SYS_socketpair, vec![local_pairs_and(Vec::new())?]),
        (libc::SYS_fcntl, none_of(1, &REFUSED_FILE_COMMANDS)?),
        (libc::SYS_ioctl, none_of(1, &REFUSED_TERMINAL_REQUESTS)?),
        (libc::SYS_prctl, none_of(0, &REFUSED_PROCESS_OPTIONS)?),
        (
            // Looking at any process, changing the caller alone: with the limits of process 1 in its hands, which has
            // the same user, a program could end the whole sandbox or keep it from working.
            libc::SYS_prlimit64,
            vec![SeccompRule::new(vec![word(0, Eq, CALLER)?])?, SeccompRule::new(vec![wide(2, Eq, NO_NEW_LIMIT)?])?],
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

/// No vsock (it reaches the hypervisor's side from any namespace), no packet sockets, no kernel
/// cryptography. Internet sockets are TCP, UDP and echo only: asking for another protocol would have the
/// kernel load its module. Netlink only for routes, which the C library asks for addresses.
fn sockets() -> Result<Vec<SeccompRule>, BackendError> {
    let mut rules = sockets_of_the_network()?;
    rules.push(SeccompRule::new(vec![word(0, SeccompCmpOp::Eq, libc::AF_UNIX as u64)?])?);
    Ok(rules)
}

/// The same without local sockets.
pub(super) fn sockets_of_the_network() -> Result<Vec<SeccompRule>, BackendError> {
    use SeccompCmpOp::Eq;
    let mut rules =
        vec![SeccompRule::new(vec![word(0, Eq, libc::AF_NETLINK as u64)?, word(2, Eq, libc::NETLINK_ROUTE as u64)?])?];
    for family in [libc::AF_INET, libc::AF_INET6] {
        for (kind, protocol) in INTERNET_SOCKETS {
            rules.push(SeccompRule::new(vec![
                word(0, Eq, family as u64)?,
                socket_type(kind)?,
                word(2, Eq, protocol as u64)?,
            ])?);
        }
    }
    Ok(rules)
}

/// A rule about `clone` that holds when no namespace is asked for and the other conditions hold.
pub(super) fn no_namespaces_and(mut conditions: Vec<SeccompCondition>) -> Result<SeccompRule, BackendError> {
    conditions.push(wide(0, SeccompCmpOp::MaskedEq(NAMESPACE_FLAGS), 0)?);
    SeccompRule::new(conditions)
}

/// A rule about `socketpair` that holds for local sockets when the other conditions hold.
pub(super) fn local_pairs_and(mut conditions: Vec<SeccompCondition>) -> Result<SeccompRule, BackendError> {
    conditions.push(word(0, SeccompCmpOp::Eq, libc::AF_UNIX as u64)?);
    SeccompRule::new(conditions)
}

/// That the second argument asks for this type of socket, whatever flags come with it.
pub(super) fn socket_type(kind: i32) -> Result<SeccompCondition, BackendError> {
    word(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE_MASK), kind as u64)
}

/// One rule that holds when the argument is none of the values.
fn none_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    let conditions = values.iter().map(|value| word(argument, SeccompCmpOp::Ne, *value)).collect::<Result<_, _>>()?;
    Ok(vec![SeccompRule::new(conditions)?])
}

pub(super) fn word(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn wide(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value)
}
