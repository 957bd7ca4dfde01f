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

fn refused() -> Vec<Row> {
    vec![
        ("namespaces", libc::SYS_unshare, "0x10000000", "EPERM"),
        ("namespaces", libc::SYS_unshare, "0x00020000", "EPERM"),
        ("namespaces", libc::SYS_setns, "-1, 0", "EPERM"),
        ("namespaces", libc::SYS_clone, "0x10000000 | 0x00000100 | 0x800, 0, 0, 0, 0", "EPERM"),
        ("namespaces", libc::SYS_clone, "0x40000000 | 0x800, 0, 0, 0, 0", "EPERM"),
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
        ("newer than the table", 467, "-1, 1, 0, 0, 0", "ENOSYS"),
        ("newer than the table", 9999, "", "ENOSYS"),
        ("keys", libc::SYS_add_key, "1, 1, 0, 0, 0", "EPERM"),
        ("keys", libc::SYS_request_key, "1, 1, 0, 0", "EPERM"),
        ("keys", libc::SYS_keyctl, "0x7fffffff, 0", "EPERM"),
        ("userfaultfd", libc::SYS_userfaultfd, "1", "EPERM"),
        ("userfaultfd", libc::SYS_userfaultfd, "0x7fffffff", "EPERM"),
        ("io_uring", libc::SYS_io_uring_setup, "0, 0", "EPERM"),
        ("io_uring", libc::SYS_io_uring_enter, "-1, 0, 0, 0", "EPERM"),
        ("io_uring", libc::SYS_io_uring_register, "-1, 0, 0, 0", "EPERM"),
        ("kernel AIO", libc::SYS_io_setup, "0, 0", "EPERM"),
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
        ("pages of others", libc::SYS_move_pages, "-1, 0, 0, 0, 0, 0", "EPERM"),
        ("host name", libc::SYS_sethostname, "1, 0x7fffffff", "EPERM"),
        ("personality", libc::SYS_personality, "0x0040000", "EPERM"),
        ("personality", libc::SYS_personality, "8", "EPERM"),
        ("limits of others", libc::SYS_prlimit64, "1, 7, 1, 0", "EPERM"),
        ("limits of others", libc::SYS_prlimit64, "os.getppid() or 1, 7, 1, 0", "EPERM"),
        ("sockets", libc::SYS_socket, "40, 1, 0", "EPERM"),
        ("sockets", libc::SYS_socket, "17, 3, 0", "EPERM"),
        ("sockets", libc::SYS_socket, "38, 5, 0", "EPERM"),
        ("sockets", libc::SYS_socket, "16, 3, 15", "EPERM"),
        ("sockets", libc::SYS_socket, "44, 3, 0", "EPERM"),
        ("sockets", libc::SYS_socket, "2, 3, 1", "EPERM"),
        ("sockets", libc::SYS_socket, "2, 1, 132", "EPERM"),
        ("sockets", libc::SYS_socket, "10, 5, 132", "EPERM"),
        ("sockets", libc::SYS_socket, "2, 2, 136", "EPERM"),
        ("sockets", libc::SYS_socketpair, "2, 1, 0, 0", "EPERM"),
        ("terminal injection", libc::SYS_ioctl, "-1, 0x5412, 0", "EPERM"),
        ("terminal injection", libc::SYS_ioctl, "-1, 0x541c, 0", "EPERM"),
        // Only the lower half of this argument reaches the kernel, so the upper must not hide it.
        ("terminal injection", libc::SYS_ioctl, "-1, 0x7fff00005412, 0", "EPERM"),
    ]
}

/// What programs need and the filter must not be in the way of.
fn passed() -> Vec<Row> {
    vec![
        ("threads", libc::SYS_clone, "0x00010000, 0, 0, 0, 0", "EINVAL"),
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
