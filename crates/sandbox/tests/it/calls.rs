//! System calls that must be refused, tried twice: by the host's root with nothing but the filter in
//! the way (so that a refusal is the filter's), and inside a real sandbox.
//!
//! Every argument is chosen so that the call could do nothing if it were let through.

use std::fmt::Write as _;
use std::os::unix::process::CommandExt;
use std::process::Command;

use stead_sandbox::seccomp;

use crate::fixture::Bench;

/// Family, call, arguments as Python, the only answer that counts as refused.
type Row = (&'static str, i64, &'static str, &'static str);

/// A pointer that is never mapped.
const BAD: &str = "1";

/// Calls that libc has no name for on every architecture of ours; numbers are the same on all.
const STATMOUNT: i64 = 457;
const LISTMOUNT: i64 = 458;
const LSM_SET_SELF_ATTR: i64 = 460;
const OPEN_TREE_ATTR: i64 = 467;

/// Every flag that makes a namespace: mounts, control groups, host name, ipc, users, processes, network, time.
const NAMESPACES: [&str; 8] =
    ["0x00020000", "0x02000000", "0x04000000", "0x08000000", "0x10000000", "0x20000000", "0x40000000", "0x00000080"];

/// The same for `clone`. `0x800` without `0x100` keeps a process from being made if the call were let through.
const CLONES_INTO_NAMESPACES: [&str; 8] = [
    "0x00020800, 0, 0, 0, 0",
    "0x02000800, 0, 0, 0, 0",
    "0x04000800, 0, 0, 0, 0",
    "0x08000800, 0, 0, 0, 0",
    "0x10000800, 0, 0, 0, 0",
    "0x20000800, 0, 0, 0, 0",
    "0x40000800, 0, 0, 0, 0",
    "0x00000880, 0, 0, 0, 0",
];

/// Families that are neither local, internet nor routes: packets, cryptography, keys, reliable datagrams, CAN, TIPC, Bluetooth,
/// NFC, the hypervisor's, radio processors, XDP.
const OTHER_SOCKET_FAMILIES: [&str; 11] = [
    "17, 3, 0", "38, 5, 0", "15, 3, 2", "21, 5, 0", "29, 3, 1", "30, 5, 0", "31, 3, 1", "39, 5, 0", "40, 1, 0",
    "42, 2, 0", "44, 3, 0",
];

fn refused() -> Vec<Row> {
    let mut rows = listed();
    rows.extend(NAMESPACES.map(|flag| ("namespaces", libc::SYS_unshare, flag, "EPERM")));
    rows.extend(CLONES_INTO_NAMESPACES.map(|arguments| ("namespaces", libc::SYS_clone, arguments, "EPERM")));
    rows.extend(OTHER_SOCKET_FAMILIES.map(|arguments| ("sockets", libc::SYS_socket, arguments, "EPERM")));
    #[cfg(target_arch = "x86_64")]
    rows.extend([
        ("ports of the machine", libc::SYS_iopl, "3", "EPERM"),
        ("ports of the machine", libc::SYS_ioperm, "0, 1, 1", "EPERM"),
        ("segments", libc::SYS_modify_ldt, "0x7fff, 0, 0", "EPERM"),
        ("old calls", libc::SYS_uselib, BAD, "EPERM"),
        ("old calls", libc::SYS_ustat, "0, 1", "EPERM"),
        ("old calls", libc::SYS_sysfs, "3", "EPERM"),
        ("old calls", libc::SYS__sysctl, BAD, "EPERM"),
    ]);
    rows
}

fn listed() -> Vec<Row> {
    vec![
        ("namespaces", libc::SYS_setns, "-1, 0", "EPERM"),
        ("namespaces", libc::SYS_clone, "0x10000000 | 0x00000100 | 0x800, 0, 0, 0, 0", "EPERM"),
        ("namespaces", libc::SYS_clone3, "0, 0", "ENOSYS"),
        ("mounts", libc::SYS_mount, "1, 1, 1, 0, 0", "EPERM"),
        ("mounts", libc::SYS_umount2, "1, 0", "EPERM"),
        ("mounts", libc::SYS_pivot_root, "1, 1", "EPERM"),
        ("mounts", libc::SYS_chroot, BAD, "EPERM"),
        ("mounts", libc::SYS_fsopen, "1, 0", "EPERM"),
        ("mounts", libc::SYS_fsconfig, "-1, 0, 0, 0, 0", "EPERM"),
        ("mounts", libc::SYS_fsmount, "-1, 0, 0", "EPERM"),
        ("mounts", libc::SYS_fspick, "-1, 1, 0", "EPERM"),
        ("mounts", libc::SYS_open_tree, "-1, 1, 1", "EPERM"),
        ("mounts", libc::SYS_move_mount, "-1, 1, -1, 1, 0", "EPERM"),
        ("mounts", libc::SYS_mount_setattr, "-1, 1, 0, 0, 0", "EPERM"),
        ("mounts", STATMOUNT, "1, 1, 0, 0", "EPERM"),
        ("mounts", LISTMOUNT, "1, 1, 0, 0", "EPERM"),
        ("newer than the table", OPEN_TREE_ATTR, "-1, 1, 0, 0, 0", "ENOSYS"),
        ("newer than the table", 9999, "", "ENOSYS"),
        ("leases of files", libc::SYS_fcntl, "-1, 1024, 1", "EPERM"),
        ("watches of directories", libc::SYS_fcntl, "-1, 1026, 1", "EPERM"),
        ("delegations of files", libc::SYS_fcntl, "-1, 1040, 0", "EPERM"),
        ("space without writing", libc::SYS_fallocate, "-1, 0, 0, 4096", "ENOTSUP"),
        ("space without writing", libc::SYS_fallocate, "-1, 1, 0, 4096", "ENOTSUP"),
        ("space without writing", libc::SYS_fallocate, "-1, 16, 0, 4096", "ENOTSUP"),
        ("keys", libc::SYS_add_key, "1, 1, 0, 0, 0", "EPERM"),
        ("keys", libc::SYS_request_key, "1, 1, 0, 0", "EPERM"),
        ("keys", libc::SYS_keyctl, "0x7fffffff, 0", "EPERM"),
        ("userfaultfd", libc::SYS_userfaultfd, "1", "EPERM"),
        ("userfaultfd", libc::SYS_userfaultfd, "0x7fffffff", "EPERM"),
        ("io_uring", libc::SYS_io_uring_setup, "0, 0", "EPERM"),
        ("io_uring", libc::SYS_io_uring_enter, "-1, 0, 0, 0", "EPERM"),
        ("io_uring", libc::SYS_io_uring_register, "-1, 0, 0, 0", "EPERM"),
        ("kernel AIO", libc::SYS_io_setup, "0, 0", "EPERM"),
        ("kernel AIO", libc::SYS_io_submit, "0, 0, 0", "EPERM"),
        ("bpf", libc::SYS_bpf, "0x7fff, 0, 0", "EPERM"),
        ("performance events", libc::SYS_perf_event_open, "0, 0, -1, -1, 0", "EPERM"),
        ("modules", libc::SYS_init_module, "1, 0, 1", "EPERM"),
        ("modules", libc::SYS_finit_module, "-1, 1, 0", "EPERM"),
        ("modules", libc::SYS_delete_module, "1, 0", "EPERM"),
        ("kexec", libc::SYS_kexec_load, "0, 0, 0, 0x7fffffff", "EPERM"),
        ("kexec", libc::SYS_kexec_file_load, "-1, -1, 0, 0, 0x7fffffff", "EPERM"),
        ("reboot", libc::SYS_reboot, "0, 0, 0, 0", "EPERM"),
        ("swap", libc::SYS_swapon, "1, 0", "EPERM"),
        ("swap", libc::SYS_swapoff, BAD, "EPERM"),
        ("clock", libc::SYS_clock_settime, "0, 0", "EPERM"),
        ("clock", libc::SYS_clock_adjtime, "0, 1", "EPERM"),
        ("clock", libc::SYS_settimeofday, "1, 1", "EPERM"),
        ("clock", libc::SYS_adjtimex, BAD, "EPERM"),
        ("file handles", libc::SYS_open_by_handle_at, "-1, 0, 0", "EPERM"),
        ("file handles", libc::SYS_name_to_handle_at, "-1, 1, 0, 0, 0", "EPERM"),
        ("tracing", libc::SYS_ptrace, "0x7fff, 0, 0, 0", "EPERM"),
        ("tracing", libc::SYS_process_vm_readv, "1, 0, 0, 0, 0, 0", "EPERM"),
        ("tracing", libc::SYS_process_vm_writev, "1, 0, 0, 0, 0, 0", "EPERM"),
        ("tracing", libc::SYS_pidfd_getfd, "-1, 0, 0", "EPERM"),
        ("tracing", libc::SYS_kcmp, "-1, -1, 0, 0, 0", "EPERM"),
        ("quota", libc::SYS_quotactl, "0x7fffffff, 0, 0, 0", "EPERM"),
        ("quota", libc::SYS_quotactl_fd, "-1, 0, 0, 0", "EPERM"),
        ("accounting", libc::SYS_acct, BAD, "EPERM"),
        ("kernel log", libc::SYS_syslog, "99, 0, 0", "EPERM"),
        ("lookup_dcookie", libc::SYS_lookup_dcookie, "0, 0, 0", "EPERM"),
        ("fanotify", libc::SYS_fanotify_init, "0x7fffffff, 0", "EPERM"),
        ("fanotify", libc::SYS_fanotify_mark, "-1, 0, 0, -1, 0", "EPERM"),
        ("pages of others", libc::SYS_move_pages, "-1, 0, 0, 0, 0, 0", "EPERM"),
        ("pages of others", libc::SYS_migrate_pages, "-1, 0, 0, 0", "EPERM"),
        ("pages of others", libc::SYS_process_madvise, "-1, 0, 0, 0, 0", "EPERM"),
        ("pages of others", libc::SYS_process_mrelease, "-1, 0", "EPERM"),
        ("secret memory", libc::SYS_memfd_secret, "0x7fff", "EPERM"),
        ("places of memory", libc::SYS_mbind, "0, 0, 0x7fff, 0, 0, 0", "EPERM"),
        ("places of memory", libc::SYS_set_mempolicy, "0x7fff, 0, 0", "EPERM"),
        ("places of memory", libc::SYS_get_mempolicy, "0, 0, 0, 0, 0x7fff", "EPERM"),
        ("places of memory", libc::SYS_set_mempolicy_home_node, "0, 0, 0, 1", "EPERM"),
        ("security modules", LSM_SET_SELF_ATTR, "0, 0, 0, 0", "EPERM"),
        ("host name", libc::SYS_sethostname, "1, 0x7fffffff", "EPERM"),
        ("host name", libc::SYS_setdomainname, "1, 0x7fffffff", "EPERM"),
        ("terminals", libc::SYS_vhangup, "", "EPERM"),
        ("options of processes", libc::SYS_prctl, "35, 0x7fff, 0, 0, 0", "EPERM"),
        ("options of processes", libc::SYS_prctl, "35, 14, 0, 0, 0", "EPERM"),
        ("options of processes", libc::SYS_prctl, "57, 2, 0, 0, 0", "EPERM"),
        ("options of processes", libc::SYS_prctl, "62, 0, 0, 0, 0", "EPERM"),
        ("personality", libc::SYS_personality, "0x0040000", "EPERM"),
        ("personality", libc::SYS_personality, "8", "EPERM"),
        ("limits of others", libc::SYS_prlimit64, "1, 7, 1, 0", "EPERM"),
        ("limits of others", libc::SYS_prlimit64, "os.getppid() or 1, 7, 1, 0", "EPERM"),
        ("sockets", libc::SYS_socket, "16, 3, 15", "EPERM"),
        // Only the lower half of a family reaches the kernel.
        ("sockets", libc::SYS_socket, "0x7fff00000028, 1, 0", "EPERM"),
        ("sockets", libc::SYS_socket, "2, 3, 1", "EPERM"),
        ("sockets", libc::SYS_socket, "2, 1, 132", "EPERM"),
        ("sockets", libc::SYS_socket, "10, 5, 132", "EPERM"),
        ("sockets", libc::SYS_socket, "2, 2, 136", "EPERM"),
        ("sockets", libc::SYS_socketpair, "2, 1, 0, 0", "EPERM"),
        ("terminal injection", libc::SYS_ioctl, "-1, 0x5412, 0", "EPERM"),
        ("terminal injection", libc::SYS_ioctl, "-1, 0x541c, 0", "EPERM"),
        ("terminal protocols", libc::SYS_ioctl, "-1, 0x5423, 0", "EPERM"),
        // Only the lower half of this argument reaches the kernel, so the upper must not hide it.
        ("terminal injection", libc::SYS_ioctl, "-1, 0x7fff00005412, 0", "EPERM"),
    ]
}

/// What programs need and the filter must not be in the way of.
fn passed() -> Vec<Row> {
    vec![
        ("threads", libc::SYS_clone, "0x00010000, 0, 0, 0, 0", "EINVAL"),
        ("giving space back", libc::SYS_fallocate, "-1, 3, 0, 4096", "EBADF"),
        ("descriptors", libc::SYS_fcntl, "0, 1", "OK"),
        ("pipes", libc::SYS_fcntl, "-1, 1031, 4096", "EBADF"),
        ("personality", libc::SYS_personality, "0xffffffff", "OK"),
        ("personality", libc::SYS_personality, "0", "OK"),
        ("own limits", libc::SYS_prlimit64, "0, 7, 0, 0", "OK"),
        ("own limits", libc::SYS_prlimit64, "0, 7, 1, 0", "EFAULT"),
        ("looking at limits", libc::SYS_prlimit64, "os.getpid(), 7, 0, 0", "OK"),
        ("sockets", libc::SYS_socket, "1, 1, 0", "OK"),
        ("sockets", libc::SYS_socket, "2, 1, 0", "OK"),
        ("sockets", libc::SYS_socket, "10, 1, 0", "OK"),
        ("sockets", libc::SYS_socket, "2, 1 | 0x80000 | 0x800, 6", "OK"),
        ("sockets", libc::SYS_socket, "10, 2 | 0x80000, 17", "OK"),
        ("sockets", libc::SYS_socket, "16, 3, 0", "OK"),
        ("terminals", libc::SYS_ioctl, "-1, 0x5413, 0", "EBADF"),
        ("terminals", libc::SYS_ioctl, "-1, 0x540e, 0", "EBADF"),
        ("options of processes", libc::SYS_prctl, "3", "OK"),
        ("options of processes", libc::SYS_prctl, "4, 0", "OK"),
        ("options of processes", libc::SYS_prctl, "4, 1", "OK"),
        ("options of processes", libc::SYS_prctl, "15, 1", "EFAULT"),
        ("options of processes", libc::SYS_prctl, "36, 0", "OK"),
        ("confining oneself", libc::SYS_landlock_create_ruleset, "0, 0, 1", "OK"),
        ("confining oneself", libc::SYS_seccomp, "0x7fff, 0, 0", "EINVAL"),
        ("fixing one's mappings", libc::SYS_mseal, "0, 0, 1", "EINVAL"),
        ("memory files", libc::SYS_memfd_create, "1, 0", "EFAULT"),
        ("waiting", libc::SYS_epoll_create1, "0", "OK"),
        ("statx", libc::SYS_statx, "-1, 1, 0, 0, 0", "EFAULT"),
        ("restartable sequences", libc::SYS_rseq, "1, 0, 0, 0", "EINVAL"),
    ]
}

fn program(rows: &[Row]) -> String {
    let mut text = String::from(
        "import ctypes, errno, os, signal\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         def call(number, *arguments):\n\
         \x20   ctypes.set_errno(0)\n\
         \x20   r = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])\n\
         \x20   print('OK' if r >= 0 else errno.errorcode[ctypes.get_errno()], flush=True)\n",
    );
    for (_, number, arguments, _) in rows {
        let _ = writeln!(text, "call({number}, {arguments})");
    }
    text
}

fn judge(place: &str, rows: &[Row], output: &str) {
    let answers: Vec<&str> = output.lines().collect();
    assert_eq!(answers.len(), rows.len(), "{place}: {output}");
    for ((family, number, arguments, expected), answer) in rows.iter().zip(answers) {
        println!("{place}: {family}: call {number}({arguments}) -> {answer}");
        assert_eq!(answer, *expected, "{place}: {family}: call {number}({arguments})");
    }
}

#[test]
#[expect(unsafe_code, reason = "the filter must be loaded between fork and exec")]
fn the_filter_alone_refuses_each_family_even_to_root() {
    let filter = seccomp::compile().unwrap();
    let rows: Vec<Row> = refused().into_iter().chain(passed()).collect();
    let mut command = Command::new("/usr/bin/python3");
    command.arg("-c").arg(program(&rows));
    // SAFETY: the closure makes two system calls and allocates only if the second fails.
    unsafe {
        command.pre_exec(move || seccomp::load(&filter).map_err(|_| std::io::ErrorKind::Unsupported.into()));
    }
    let output = command.output().unwrap();
    judge("root under the filter", &rows, &String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_sandbox_refuses_each_family() {
    let rows: Vec<Row> = refused().into_iter().chain(passed()).collect();
    let ran = Bench::new().python(&program(&rows));
    judge("sandbox", &rows, &ran.output);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn other_call_tables_of_the_processor_are_closed() {
    let ran = Bench::new().python(
        "import ctypes, errno, mmap, os\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         for number in (39, 257, 59 + 512 - 59 + 8):\n\
         \x20   r = libc.syscall(ctypes.c_long(0x40000000 + number), 0, 0, 0)\n\
         \x20   print('x32', number, r, errno.errorcode[ctypes.get_errno()], flush=True)\n\
         if os.fork() == 0:\n\
         \x20   page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n\
         \x20   page.write(bytes.fromhex('b814000000cd80c3'))\n\
         \x20   address = ctypes.addressof(ctypes.c_char.from_buffer(page))\n\
         \x20   ctypes.CFUNCTYPE(ctypes.c_int)(address)()\n\
         \x20   os._exit(0)\n\
         print('i386', os.wait()[1])",
    );
    println!("{}", ran.output);
    assert_eq!(ran.output.matches("-1 EPERM").count(), 3, "{}", ran.output);
    // SIGSYS with or without a core, or SIGSEGV where the kernel has no 32-bit entry at all.
    let killed = ["i386 31\n", "i386 159\n", "i386 11\n"].iter().any(|end| ran.output.ends_with(end));
    assert!(killed, "{}", ran.output);
}
