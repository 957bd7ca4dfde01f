//! Devices and terminals.

use super::{DENIED, EACCES, ENOENT, EPERM, NONE, Probe, Reaches, SEALED, Succeeds, Without, probe};

/// What a host has in `/dev` and a session must not.
const ABSENT: [&str; 27] = [
    "mem",
    "kmsg",
    "kvm",
    "fuse",
    "port",
    "tty",
    "tty0",
    "tty1",
    "ttyS0",
    "console",
    "loop-control",
    "loop0",
    "net/tun",
    "vhost-net",
    "vhost-vsock",
    "vsock",
    "userfaultfd",
    "uinput",
    "snapshot",
    "mapper/control",
    "nvram",
    "rtc0",
    "watchdog",
    "hwrng",
    "cpu_dma_latency",
    "autofs",
    "btrfs-control",
];

pub(super) fn probes() -> Vec<Probe> {
    let mut probes = nodes();
    probes.extend(ABSENT.map(|name| {
        probe(
            format!("host devices: /dev/{name}"),
            format!("opened('/dev/{name}')"),
            ENOENT,
            Without("a look for a name"),
        )
    }));
    probes.extend(terminals());
    probes
}

fn nodes() -> Vec<Probe> {
    let made = |place: &str, kind: &str, device: &str| {
        format!("p = {place} + '/node'\nos.mknod(p, stat.{kind} | 0o600, {device})\nos.unlink(p)")
    };
    let opened_after =
        "p = WORK + '/white'\nos.mknod(p, stat.S_IFCHR | 0o600, 0)\ntry: opened(p)\nfinally: os.unlink(p)";
    vec![
        probe("device nodes: character, in /tmp", made("'/tmp'", "S_IFCHR", "os.makedev(1, 3)"), EPERM, Succeeds),
        probe(
            "device nodes: character, in the workspace",
            made("WORK", "S_IFCHR", "os.makedev(1, 1)"),
            EPERM,
            Succeeds,
        ),
        probe(
            "device nodes: character, in /dev/shm",
            made("'/dev/shm'", "S_IFCHR", "os.makedev(1, 3)"),
            EPERM,
            Succeeds,
        ),
        probe("device nodes: the host's disk, in /tmp", made("'/tmp'", "S_IFBLK", "DISK"), EPERM, Succeeds),
        probe("device nodes: the host's disk, in the workspace", made("WORK", "S_IFBLK", "DISK"), EPERM, Succeeds),
        probe(
            "device nodes: by mknodat",
            "call('mknodat', -100, text(WORK + '/n'), 0o20600, os.makedev(1, 3))\nos.unlink(WORK + '/n')",
            EPERM,
            Succeeds,
        ),
        probe(
            "device nodes: a whiteout, opened",
            opened_after,
            &["EACCES", "ENXIO"],
            Without("no device answers to number 0"),
        ),
        probe(
            "a device that somebody put into the workspace",
            "seen = 'OK' if read(DEVICE, 4) == bytes(4) else 'nothing'",
            EACCES,
            Succeeds,
        ),
        probe("the host's disk", "opened(DISK_PATH)", ENOENT, Without("it may be closed to the machine's root")),
        probe("a new name in /dev", "open('/dev/probe', 'x')", SEALED, Without("the host's own directory")),
        probe(
            "remove a device",
            "os.unlink('/dev/null')",
            &["EROFS", "EACCES", "EBUSY"],
            Without("the host's own node"),
        ),
        probe("mode of a device", "os.chmod('/dev/null', 0o666)", &["EROFS", "EPERM"], Without("the host's own node")),
        probe("times of a device", "os.utime('/dev/null')", SEALED, Without("the host's own node")),
        probe(
            "attributes of a device",
            "os.setxattr('/dev/null', 'user.x', b'1')",
            &["EROFS", "EPERM", "EACCES"],
            Without("the host's own node"),
        ),
        probe(
            "owner of a device",
            "os.chown('/dev/zero', os.getuid(), -1)",
            &["EROFS", "EPERM"],
            Without("the host's own node"),
        ),
        probe(
            "devices beyond the usual",
            "usual = set('null zero full random urandom fd stdin stdout stderr shm pts ptmx'.split())\nseen = set(os.listdir('/dev')) - usual or 'none'",
            NONE,
            Without("looks at what there is"),
        ),
        probe(
            "terminals of others",
            "seen = [n for n in os.listdir('/dev/pts') if n != 'ptmx'] if os.path.isdir('/dev/pts') else 'none'\nseen = seen or 'none'",
            NONE,
            Without("looks at what there is"),
        ),
    ]
}

fn terminals() -> Vec<Probe> {
    let terminal = "import pty\nm, s = pty.openpty()\n";
    vec![
        probe(
            "terminal injection",
            format!("{terminal}os.setsid() if os.getpgid(0) != os.getpid() else None\nfcntl.ioctl(s, 0x5412, b'x')"),
            EPERM,
            Reaches,
        ),
        probe(
            "terminal injection with bits that the kernel does not see",
            format!("{terminal}call('ioctl', s, 0x7fff00005412, text('x'))"),
            EPERM,
            Reaches,
        ),
        probe("terminal selection", format!("{terminal}fcntl.ioctl(s, 0x541c, b'\\x02')"), EPERM, Reaches),
        probe(
            "steal a terminal",
            "import pty\nm, s = pty.openpty()\nk = os.fork()\nif k == 0:\n    os.setsid(); fcntl.ioctl(s, 0x540e, 0); time.sleep(10); os._exit(0)\ntime.sleep(0.3)\nchild(lambda: (os.setsid(), fcntl.ioctl(s, 0x540e, 1)))",
            DENIED,
            Succeeds,
        ),
        probe(
            "a terminal of the service",
            "opened('/dev/tty')",
            &["ENOENT", "ENXIO"],
            Without("the control has none either"),
        ),
        probe(
            "terminal of a standard stream",
            "seen = [n for n in (0, 1, 2) if os.isatty(n)] or 'none'",
            NONE,
            Without("looks at what there is"),
        ),
    ]
}
