//! Other processes: process 1 and the supervisor of the session, other sessions, the host.

use super::{DENIED, EACCES, ENOENT, EPERM, ESRCH, NONE, Probe, Reaches, Succeeds, SucceedsOnHost, Without, probe};

/// Rights over the machine's resources are often withheld from containers and their like.
const RESOURCES: &str = "the machine's root may lack the right";

const NOBODY: &[&str] = &["ESRCH", "EINVAL"];

pub(super) fn probes() -> Vec<Probe> {
    let mut probes = tracing();
    probes.extend(signals());
    probes.extend(priorities());
    probes
}

fn tracing() -> Vec<Probe> {
    let memory = "b = ctypes.create_string_buffer(b'secret')\no = ctypes.create_string_buffer(8)\n\
        l = (ctypes.c_uint64 * 2)(ctypes.addressof(o), 6)\nr = (ctypes.c_uint64 * 2)(ctypes.addressof(b), 6)\n";
    let traced = |pid: &str| format!("p = {pid}\ncall('ptrace', 0x4206, p, 0, 0)\ncall('ptrace', 0x4207, p, 0, 0)");
    let vm = |call: &str, pid: &str| format!("p = {pid}\n{memory}call('{call}', p, l, 1, r, 1, 0)");
    vec![
        probe("ptrace: process 1", traced("1"), EPERM, Reaches),
        probe("ptrace: a child of mine", traced("sleeper()"), EPERM, Succeeds),
        probe("ptrace: let my parent trace me", "call('ptrace', 0, 0, 0, 0)", EPERM, Succeeds),
        probe(
            "ptrace another session",
            "call('ptrace', 0x4206, OTHER_PID, 0, 0)",
            EPERM,
            Without("the other is a session"),
        ),
        probe(
            "trace by the program",
            "subprocess.run(['strace', '-o', '/dev/null', 'true'], capture_output=True).returncode == 0 or fail(errno.EPERM)",
            &["EPERM", "ENOENT"],
            Without("the program may not be there"),
        ),
        probe("process_vm_readv: process 1", vm("process_vm_readv", "1"), EPERM, Succeeds),
        probe("process_vm_readv: a child of mine", vm("process_vm_readv", "sleeper()"), EPERM, Reaches),
        probe("process_vm_writev: process 1", "call('process_vm_writev', 1, 0, 0, 0, 0, 0)", EPERM, Succeeds),
        probe(
            "pid 1 of own session: its descriptors",
            "p = call('pidfd_open', 1, 0)\nos.close(call('pidfd_getfd', p, 1, 0))",
            EPERM,
            Succeeds,
        ),
        probe(
            "descriptors of the supervisor",
            "p = call('pidfd_open', os.getppid() if CONTROL else SUPERVISOR, 0)\nos.close(call('pidfd_getfd', p, 1, 0))",
            EPERM,
            Succeeds,
        ),
        probe(
            "descriptors of a child of mine",
            "p = call('pidfd_open', sleeper(), 0)\nos.close(call('pidfd_getfd', p, 1, 0))",
            EPERM,
            Succeeds,
        ),
        probe("kcmp with process 1", "call('kcmp', os.getpid(), 1, 3, 0, 0)", EPERM, Succeeds),
        probe(
            "list of locks of process 1",
            "h = ctypes.c_void_p(); n = ctypes.c_size_t()\ncall('get_robust_list', 1, ctypes.byref(h), ctypes.byref(n))",
            EPERM,
            Succeeds,
        ),
        probe("move pages of process 1", "call('move_pages', 1, 0, 0, 0, 0, 0)", EPERM, Reaches),
        probe("migrate pages of process 1", "call('migrate_pages', 1, 0, 0, 0)", EPERM, Reaches),
        probe(
            "advise process 1 about its memory",
            "p = call('pidfd_open', 1, 0)\ncall('process_madvise', p, 0, 0, 21, 0)",
            EPERM,
            Reaches,
        ),
        probe("free the memory of a dying process", "call('process_mrelease', -1, 0)", EPERM, Reaches),
        probe(
            "share a core with process 1 alone",
            "libc.prctl(62, 2, 1, 0, 0) == 0 or fail(ctypes.get_errno())",
            &["EPERM", "EINVAL", "ENODEV"],
            Without("machines without paired cores have no such thing"),
        ),
        probe(
            "become my memory map",
            "libc.prctl(35, 1, 0x10000, 0, 0) == 0 or fail(ctypes.get_errno())",
            EPERM,
            Without(RESOURCES),
        ),
        probe(
            "limits of process 1",
            "call('prlimit64', 1, 7, ctypes.create_string_buffer(struct.pack('QQ', 1024, 1024)), 0)",
            EPERM,
            Succeeds,
        ),
        probe("open files of process 1", "resource.prlimit(1, resource.RLIMIT_NOFILE, (512, 512))", DENIED, Succeeds),
    ]
}

fn signals() -> Vec<Probe> {
    let reached = "mine = {p for p in os.listdir('/proc') if p.isdigit()}\n\
        hit = []\n\
        for n in [*range(2, 40000), HOST_PID, OTHER_PID]:\n\
        \x20   try: os.kill(n, 0)\n\
        \x20   except OSError: continue\n\
        \x20   try: group = str(os.getpgid(n)); hit += [n] if not {str(n), group} & mine and not os.path.exists(f'/proc/{n}') else []\n\
        \x20   except OSError: pass\n\
        seen = hit or 'none'";
    let survives = |signal: &str| {
        format!(
            "os.kill(1, signal.{signal})\ntime.sleep(0.2)\n\
             state = open('/proc/1/stat').read().rsplit(')', 1)[1].split()[0]\nseen = 'none' if state in 'SR' else state"
        )
    };
    let mut probes = vec![
        probe("signal a host process", "os.kill(HOST_PID, 0)", ESRCH, SucceedsOnHost),
        probe("signal another session", "os.kill(OTHER_PID, 0)", ESRCH, SucceedsOnHost),
        probe("signal the host's group", "os.killpg(HOST_PID, 0)", ESRCH, Without("the test leads no group")),
        probe("signal others: everyone that has a number", reached, NONE, Without("looks at what there is")),
        probe("a handle of a host process", "os.close(os.pidfd_open(HOST_PID))", NOBODY, SucceedsOnHost),
        probe(
            "a queued signal to a host process",
            "call('rt_sigqueueinfo', HOST_PID, 0, ctypes.create_string_buffer(struct.pack('iii', 0, 0, -1), 128))",
            ESRCH,
            SucceedsOnHost,
        ),
        probe("a thread of a host process", "call('tgkill', HOST_PID, HOST_PID, 0)", ESRCH, SucceedsOnHost),
        probe(
            "have the kernel signal a host process",
            "r, w = os.pipe()\nfcntl.fcntl(r, 8, HOST_PID)",
            ESRCH,
            SucceedsOnHost,
        ),
        probe("priority of a host process", "os.getpriority(os.PRIO_PROCESS, HOST_PID)", ESRCH, SucceedsOnHost),
        probe("cores of a host process", "os.sched_getaffinity(HOST_PID)", ESRCH, SucceedsOnHost),
        probe(
            "limits of a host process",
            "call('prlimit64', HOST_PID, 7, 0, ctypes.create_string_buffer(16))",
            ESRCH,
            SucceedsOnHost,
        ),
        probe("group of a host process", "os.getpgid(HOST_PID)", ESRCH, SucceedsOnHost),
    ];
    for (name, code) in [
        ("signal the egress helper", "os.kill(HELPER_PID, 0)"),
        ("a handle of the egress helper", "os.close(os.pidfd_open(HELPER_PID))"),
        ("cores of the egress helper", "os.sched_getaffinity(HELPER_PID)"),
    ] {
        probes.push(probe(name, code, NOBODY, SucceedsOnHost));
    }
    for (name, file) in [("state", "status"), ("directory", "cwd"), ("descriptors", "fd"), ("environment", "environ")] {
        let code = format!("os.stat(f'/proc/{{HELPER_PID}}/{file}')");
        probes.push(probe(format!("{name} of the egress helper"), code, ENOENT, SucceedsOnHost));
    }
    for signal in
        ["SIGKILL", "SIGSTOP", "SIGTERM", "SIGINT", "SIGHUP", "SIGSEGV", "SIGUSR1", "SIGCHLD", "SIGPIPE", "SIGSYS"]
    {
        probes.push(probe(
            format!("end process 1: {signal}"),
            survives(signal),
            NONE,
            Without("the first process of a throw-away namespace is the control itself"),
        ));
    }
    probes
}

fn priorities() -> Vec<Probe> {
    vec![
        probe(
            "real-time scheduling: FIFO",
            "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
            EPERM,
            Succeeds,
        ),
        probe("real-time scheduling: RR", "os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))", EPERM, Succeeds),
        probe(
            "real-time scheduling: deadline",
            "call('sched_setattr', 0, ctypes.create_string_buffer(struct.pack('IIQiIQQQ', 48, 6, 0, 0, 0, 10**6, 10**8, 10**8)), 0)",
            EPERM,
            Reaches,
        ),
        probe("negative niceness", "os.setpriority(os.PRIO_PROCESS, 0, -5)", EACCES, Succeeds),
        probe("negative niceness of process 1", "os.setpriority(os.PRIO_PROCESS, 1, -5)", DENIED, Succeeds),
        probe("real-time input and output", "call('ioprio_set', 1, 0, (1 << 13) | 4)", EPERM, Succeeds),
        probe(
            "lock more memory than allowed",
            "m = mmap.mmap(-1, 16 << 20)\ncall('mlock', ctypes.addressof(ctypes.c_char.from_buffer(m)), 16 << 20)",
            &["ENOMEM", "EPERM"],
            Succeeds,
        ),
        probe("lock all memory", "m = mmap.mmap(-1, 16 << 20)\ncall('mlockall', 3)", &["ENOMEM", "EPERM"], Succeeds),
        probe(
            "raise a limit",
            "s, h = resource.getrlimit(resource.RLIMIT_NOFILE)\nresource.setrlimit(resource.RLIMIT_NOFILE, (h + 1, h + 1))",
            EPERM,
            Without(RESOURCES),
        ),
        probe(
            "core dumps for a program of the host",
            "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\nseen = 'OK' if resource.getrlimit(resource.RLIMIT_CORE)[0] == 0 else 'none'",
            NONE,
            Succeeds,
        ),
        probe(
            "core dumps",
            "resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))\nseen = 'OK' if max(resource.getrlimit(resource.RLIMIT_CORE)) > 4095 else 'none'",
            &["none", "EPERM"],
            Without(RESOURCES),
        ),
        probe(
            "huge pages",
            "mmap.mmap(-1, 2 << 20, flags=0x40022)",
            &["ENOMEM", "EINVAL", "EPERM"],
            Without("the host may have none set aside"),
        ),
        probe(
            "huge pages of shared memory",
            "i = call('shmget', 0, 2 << 20, 0o4600)",
            &["ENOMEM", "EPERM", "EINVAL", "ENOSYS"],
            Without("the host may have none set aside"),
        ),
    ]
}
