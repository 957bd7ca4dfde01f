//! Calls that reach for the kernel itself. What could do harm gets arguments that cannot take effect.

use super::{DENIED, ENOSYS, EPERM, Probe, Reaches, Succeeds, Without, probe};

pub(super) fn probes() -> Vec<Probe> {
    let mut probes = harmless();
    probes.extend(harmful());
    probes.extend(other_tables());
    probes
}

/// What succeeds elsewhere, and is gone with the process that did it.
fn harmless() -> Vec<Probe> {
    vec![
        probe(
            "kernel keyrings: add_key",
            "call('add_key', text('user'), text('probe'), text('x'), 1, -2)",
            EPERM,
            Succeeds,
        ),
        probe("kernel keyrings: keyctl", "call('keyctl', 0, -2, 1)", EPERM, Succeeds),
        probe("kernel keyrings: request_key", "call('request_key', BAD, BAD, 0, 0)", EPERM, Reaches),
        probe("kernel keyrings: the service's session keyring", "call('keyctl', 0, -3, 0)", EPERM, Succeeds),
        probe("userfaultfd", "os.close(call('userfaultfd', 0))", EPERM, Succeeds),
        probe("userfaultfd, user mode only", "os.close(call('userfaultfd', 1))", EPERM, Succeeds),
        probe("io_uring", "os.close(call('io_uring_setup', 1, ctypes.create_string_buffer(256)))", EPERM, Succeeds),
        probe("io_uring_enter", "call('io_uring_enter', -1, 0, 0, 0, 0, 0)", EPERM, Reaches),
        probe("io_uring_register", "call('io_uring_register', -1, 0, 0, 0)", EPERM, Reaches),
        probe("kernel AIO", "c = ctypes.c_ulong()\ncall('io_setup', 1, ctypes.byref(c))", EPERM, Succeeds),
        probe("bpf", "call('bpf', 0x7fff, 0, 0)", EPERM, Reaches),
        probe(
            "bpf: a map",
            "a = (ctypes.c_uint32 * 32)(2, 4, 4, 1)\nos.close(call('bpf', 0, a, 128))",
            EPERM,
            Succeeds,
        ),
        probe(
            "perf",
            "a = (ctypes.c_uint32 * 32)(1, 128, 0)\nos.close(call('perf_event_open', a, 0, -1, -1, 0))",
            EPERM,
            Succeeds,
        ),
        probe("the kernel's log", "call('syslog', 10, 0, 0)", EPERM, Succeeds),
        probe(
            "the kernel's log by the program",
            "subprocess.run(['dmesg'], capture_output=True).returncode == 0 or fail(errno.EPERM)",
            EPERM,
            Succeeds,
        ),
        probe("fanotify", "os.close(call('fanotify_init', 0, 0))", EPERM, Succeeds),
        probe("fanotify without rights", "os.close(call('fanotify_init', 0x200, 0))", EPERM, Succeeds),
        probe("personality", "call('personality', 0x40000); call('personality', 0)", EPERM, Succeeds),
        probe("personality: another system", "call('personality', 8)", EPERM, Succeeds),
        probe(
            "personality: read implies execute",
            "call('personality', 0x400000); call('personality', 0)",
            EPERM,
            Succeeds,
        ),
        probe("input and output ports", "call('iopl', 3)", EPERM, Reaches),
        probe("one input and output port", "call('ioperm', 0x80, 1, 1)", EPERM, Reaches),
        probe("segments of my own", "call('modify_ldt', 0, ctypes.create_string_buffer(16), 16)", EPERM, Reaches),
        probe("memory that only I see", "os.close(call(447, 0))", EPERM, Reaches),
        probe(
            "Landlock of my own that opens",
            "a = (ctypes.c_uint64 * 1)(2)\nr = call('landlock_create_ruleset', a, 8, 0)\nb = struct.pack('=Qi', 2, os.open('/', os.O_PATH))\ncall('landlock_add_rule', r, 1, ctypes.create_string_buffer(b), 0)\nlibc.prctl(38, 1, 0, 0, 0)\ncall('landlock_restrict_self', r, 0)\nopened(LAYER + '/own', os.O_WRONLY)",
            &["EROFS", "EACCES"],
            Succeeds,
        ),
        probe("a filter of my own that allows", ALLOWING_FILTER, EPERM, Succeeds),
        probe("a filter of my own that goes on", ASKING_FILTER, EPERM, Succeeds),
    ]
}

/// Every call passes my own filter; the one before it still decides.
const ALLOWING_FILTER: &str = "libc.prctl(38, 1, 0, 0, 0)\n\
    f = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))\n\
    p = ctypes.create_string_buffer(struct.pack('H6xQ', 1, ctypes.addressof(f)))\n\
    call('seccomp', 1, 0, p)\ncall('unshare', 0x04000000)";

/// My own filter asks me about `unshare`, and I say that it shall go on.
const ASKING_FILTER: &str = "libc.prctl(38, 1, 0, 0, 0)\n\
    n = CALL['unshare']\n\
    f = ctypes.create_string_buffer(struct.pack('HBBI' * 4, 0x20, 0, 0, 0, 0x15, 0, 1, n, 6, 0, 0, 0x7fc00000, 6, 0, 0, 0x7fff0000))\n\
    p = ctypes.create_string_buffer(struct.pack('H6xQ', 4, ctypes.addressof(f)))\n\
    l = call('seccomp', 1, 8, p)\n\
    k = os.fork()\n\
    if k == 0:\n\
    \x20   try: call('unshare', 0x04000000)\n\
    \x20   except OSError as e: os._exit(e.errno)\n\
    \x20   os._exit(0)\n\
    if select.select([l], [], [], 0.5)[0]:\n\
    \x20   q = bytearray(80)\n\
    \x20   fcntl.ioctl(l, 0xc0502100, q)\n\
    \x20   fcntl.ioctl(l, 0xc0182101, struct.pack('QqiI', struct.unpack('Q', q[:8])[0], 0, 0, 1))\n\
    s = os.waitstatus_to_exitcode(os.waitpid(k, 0)[1])\n\
    if s: fail(s)";

fn harmful() -> Vec<Probe> {
    vec![
        probe("modules: init_module", "call('init_module', BAD, 0, BAD)", EPERM, Reaches),
        probe("modules: finit_module", "call('finit_module', -1, BAD, 0)", EPERM, Reaches),
        probe("modules: delete_module", "call('delete_module', BAD, 0)", EPERM, Reaches),
        probe("kexec", "call('kexec_load', 0, 0, 0, 0x7fffffff)", EPERM, Reaches),
        probe("kexec by file", "call('kexec_file_load', -1, -1, 0, 0, 0x7fffffff)", EPERM, Reaches),
        probe("reboot", "call('reboot', 0, 0, 0, 0)", EPERM, Reaches),
        probe("swapon", "call('swapon', BAD, 0)", EPERM, Reaches),
        probe("swapoff", "call('swapoff', BAD)", EPERM, Reaches),
        probe("clock_settime", "call('clock_settime', 0, 0)", EPERM, Reaches),
        probe("clock_settime: another clock", "call('clock_settime', 1, BAD)", EPERM, Reaches),
        probe("settimeofday", "call('settimeofday', BAD, BAD)", EPERM, Reaches),
        probe("adjtimex", "call('adjtimex', BAD)", EPERM, Reaches),
        probe("clock_adjtime", "call('clock_adjtime', 0, BAD)", EPERM, Reaches),
        probe(
            "an alarm that wakes the machine",
            "t = ctypes.c_int()\ncall('timer_create', 8, 0, ctypes.byref(t))",
            &["EPERM", "EOPNOTSUPP", "EINVAL"],
            Without("a machine without a clock of its own knows no such alarm"),
        ),
        probe("quotactl", "call('quotactl', 0x7fffffff, 0, 0, 0)", EPERM, Reaches),
        probe("quotactl by a descriptor", "call('quotactl_fd', -1, 0, 0, 0)", EPERM, Reaches),
        probe(
            "hang up the terminal",
            "os.setsid() if os.getpid() != os.getsid(0) and os.getpgid(0) != os.getpid() else None\ncall('vhangup')",
            EPERM,
            Succeeds,
        ),
        probe("lookup_dcookie", "call('lookup_dcookie', 0, 0, 0)", EPERM, Reaches),
        probe("a call newer than the table", "call(9999)", ENOSYS, Without("no kernel has it")),
        probe(
            "give the random numbers an input",
            "fcntl.ioctl(os.open('/dev/urandom', os.O_WRONLY), 0x40085203)",
            DENIED,
            Reaches,
        ),
        probe("mix the random numbers anew", "ioctl('/dev/urandom', 0x5207)", DENIED, Succeeds),
    ]
}

/// The other ways into the kernel that a processor has.
fn other_tables() -> Vec<Probe> {
    if cfg!(not(target_arch = "x86_64")) {
        return Vec::new();
    }
    let other = |name: &str, call: u32| {
        let refusals: &[&str] = &["EPERM"];
        probe(
            name,
            format!("call({}, 0, 0, 0)", 0x4000_0000_u32 + call),
            refusals,
            Without("many kernels are built without it"),
        )
    };
    let by_interrupt = "p = mmap.mmap(-1, 4096, prot=7)\np.write(bytes.fromhex('b814000000cd80c3'))\n\
        a = ctypes.addressof(ctypes.c_char.from_buffer(p))\nctypes.CFUNCTYPE(ctypes.c_int)(a)()";
    vec![
        other("x32: getpid", 39),
        other("x32: unshare", 272),
        other("x32: ptrace", 521),
        other("x32: execve", 520),
        probe(
            "32-bit calls by int 0x80",
            by_interrupt,
            &["SIGSYS", "SIGSEGV"],
            Without("many kernels are built without it"),
        ),
    ]
}
