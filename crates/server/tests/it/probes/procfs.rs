//! What `/proc` and `/sys` show and take.

use super::{DENIED, EACCES, ENOENT, NONE, Probe, SHUT, Succeeds, Without, probe};

/// Files of a process that only its own user, and only while it lets itself be looked at, may read.
const OF_A_PROCESS: [&str; 15] = [
    "environ",
    "maps",
    "smaps",
    "mem",
    "auxv",
    "stack",
    "syscall",
    "personality",
    "fdinfo",
    "fd",
    "map_files",
    "io",
    "pagemap",
    "timers",
    "smaps_rollup",
];

/// Settings of a process that its user may write.
const SETTINGS: [&str; 7] =
    ["oom_score_adj", "oom_adj", "coredump_filter", "comm", "clear_refs", "autogroup", "timerslack_ns"];

/// Rights over the machine's resources are often withheld from containers and their like.
const RESOURCES: &str = "the machine's root may lack the right";

const SYSTEM: [&str; 13] = [
    "kernel/core_pattern",
    "kernel/modprobe",
    "kernel/hostname",
    "kernel/ns_last_pid",
    "kernel/randomize_va_space",
    "kernel/dmesg_restrict",
    "kernel/sysrq",
    "kernel/pid_max",
    "kernel/threads-max",
    "fs/protected_symlinks",
    "fs/file-max",
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
];

pub(super) fn probes() -> Vec<Probe> {
    let mut probes = of_processes();
    probes.extend(SYSTEM.map(|name| {
        let optional = ["net/ipv4/ip_forward", "kernel/modprobe", "kernel/sysrq"].contains(&name);
        let control = if optional { Without("not in every kernel") } else { Succeeds };
        let code = match name {
            // Anyone may open it.
            "kernel/ns_last_pid" => {
                "d = os.open('/proc/sys/kernel/ns_last_pid', os.O_WRONLY)\nos.write(d, b'300')".to_owned()
            }
            _ => format!("opened('/proc/sys/{name}', os.O_WRONLY)"),
        };
        probe(format!("system setting {name}"), code, SHUT, control)
    }));
    probes.extend(machine());
    probes.extend(sys());
    probes
}

fn of_processes() -> Vec<Probe> {
    let mut probes = Vec::new();
    for name in OF_A_PROCESS {
        let listing = ["fd", "map_files"].contains(&name);
        for (whose, pid) in [("process 1", "1"), ("the supervisor", "{os.getppid() if CONTROL else SUPERVISOR}")] {
            let path = format!("f'/proc/{pid}/{name}'");
            let code = if name == "fdinfo" || listing {
                format!("os.listdir({path})")
            } else if name == "mem" || name == "pagemap" {
                format!("opened({path})")
            } else {
                format!("read({path}, 1)")
            };
            let absent = ["stack", "timers"].contains(&name);
            let (refusals, control) = if absent { (SHUT, Without("not in every kernel")) } else { (DENIED, Succeeds) };
            probes.push(probe(format!("/proc: {name} of {whose}"), code, refusals, control));
        }
    }
    for name in SETTINGS {
        let code = match name {
            // Anyone may open it.
            "timerslack_ns" => "d = os.open('/proc/1/timerslack_ns', os.O_WRONLY)\nos.write(d, b'50000')".to_owned(),
            _ => format!("opened('/proc/1/{name}', os.O_WRONLY)"),
        };
        let (refusals, control) =
            if name == "autogroup" { (SHUT, Without("not in every kernel")) } else { (DENIED, Succeeds) };
        probes.push(probe(format!("/proc: set {name} of process 1"), code, refusals, control));
    }
    probes.extend([
        probe("write memory of process 1", "opened('/proc/1/mem', os.O_RDWR)", EACCES, Succeeds),
        probe("memory of process 1 by its thread", "opened('/proc/1/task/1/mem', os.O_RDWR)", EACCES, Succeeds),
        probe("spare me from the killer", "put('/proc/self/oom_score_adj', '-1')", EACCES, Without(RESOURCES)),
        probe("spare me from the killer by the old file", "put('/proc/self/oom_adj', '-1')", EACCES, Without(RESOURCES)),
        probe("where my memory lies in the machine's", "d = os.open('/proc/self/pagemap', os.O_RDONLY)\nb = ctypes.create_string_buffer(b'x' * 8192)\nf = struct.unpack('Q', os.pread(d, 8, ctypes.addressof(b) // 4096 * 8))[0] & ((1 << 55) - 1)\nseen = 'OK' if f else 'none'", NONE, Succeeds),
        probe("my mapped files by number", "n = os.listdir('/proc/self/map_files')[0]\nopened('/proc/self/map_files/' + n)", DENIED, Succeeds),
        probe("another's user for my audit", "put('/proc/self/loginuid', '70000')", &["EINVAL", "EPERM", "EACCES", "ENOENT"], Without("not in every kernel")),
        probe("fail my own calls on purpose", "opened('/proc/self/make-it-fail', os.O_WRONLY)", SHUT, Without("not in every kernel")),
        probe("processes of others", "own = set(map(str, range(1, 40)))\nseen = [p for p in os.listdir('/proc') if p.isdigit() and int(p) > 5000] or 'none'", NONE, Without("looks at what there is")),
    ]);
    probes
}

/// What tells about the machine or changes it.
fn machine() -> Vec<Probe> {
    const ADDRESSES: &[&str] = &["none", "EACCES", "EPERM", "ENOENT"];
    const LOOK: &str = "looks at what there is";
    let hidden =
        |path: &str| probe(format!("read {path}"), format!("read('{path}', 1)"), SHUT, Without("not in every kernel"));
    let written = |path: &str| {
        probe(format!("write {path}"), format!("opened('{path}', os.O_WRONLY)"), SHUT, Without("not in every kernel"))
    };
    let mut probes = vec![
        probe(
            "addresses of the kernel's functions",
            "seen = 'OK' if any(int(l.split()[0], 16) for l in open('/proc/kallsyms')) else 'none'",
            ADDRESSES,
            Succeeds,
        ),
        probe(
            "addresses of the machine's memory",
            "seen = 'OK' if any(int(l.split('-')[0], 16) for l in open('/proc/iomem')) else 'none'",
            ADDRESSES,
            Succeeds,
        ),
        probe(
            "keys of the service",
            "seen = [l.split()[-2] for l in open('/proc/keys') if '_ses' not in l and '_uid' not in l] or 'none'",
            ADDRESSES,
            Without(LOOK),
        ),
        probe("the kernel's log in /proc", "opened('/proc/kmsg')", SHUT, Succeeds),
        probe(
            "what the kernel was told at its start",
            "seen = 'none' if b'secret' not in read('/proc/cmdline') else 'OK'",
            NONE,
            Without(LOOK),
        ),
    ];
    probes.extend(
        [
            "kcore",
            "slabinfo",
            "vmallocinfo",
            "kpagecount",
            "kpageflags",
            "kpagecgroup",
            "pagetypeinfo",
            "timer_list",
            "sched_debug",
        ]
        .map(|name| hidden(&format!("/proc/{name}"))),
    );
    probes.extend(
        [
            "/proc/sysrq-trigger",
            "/proc/sys/fs/binfmt_misc/register",
            "/proc/acpi/wakeup",
            "/proc/mtrr",
            "/proc/irq/default_smp_affinity",
            "/proc/bus/pci/devices",
            "/proc/scsi/scsi",
            "/proc/asound/card0/id",
            "/proc/driver/nvram",
            "/proc/sys/kernel/hotplug",
            "/proc/sys/kernel/usermodehelper/bset",
            "/proc/sys/kernel/yama/ptrace_scope",
            "/proc/sys/kernel/random/entropy_avail",
            "/proc/sys/vm/drop_caches",
            "/proc/sys/debug/exception-trace",
            "/proc/sys/abi/vsyscall32",
            "/proc/sys/dev/tty/legacy_tiocsti",
            "/proc/latency_stats",
            "/proc/timer_stats",
        ]
        .map(written),
    );
    probes
}

/// There is no `/sys`.
fn sys() -> Vec<Probe> {
    [
        ("cgroup release_agent", "/sys/fs/cgroup/memory/release_agent"),
        ("cgroup release_agent of version 2", "/sys/fs/cgroup/cgroup.procs"),
        ("/sys, uevent_helper", "/sys/kernel/uevent_helper"),
        ("/sys, memory of the kernel", "/sys/kernel/slab"),
        ("/sys, tracing", "/sys/kernel/tracing/trace_pipe"),
        ("/sys, debugging", "/sys/kernel/debug/x"),
        ("/sys, security", "/sys/kernel/security/lockdown"),
        ("/sys, power", "/sys/power/state"),
        ("/sys, firmware", "/sys/firmware/efi/efivars"),
        ("/sys, block devices", "/sys/block"),
        ("/sys, modules", "/sys/module"),
        ("core dumps by a socket", "/run/systemd/coredump"),
        ("the host's bus", "/run/dbus/system_bus_socket"),
    ]
    .map(|(name, path)| probe(name, format!("os.stat('{path}')"), ENOENT, Without("a look for a name")))
    .into()
}
