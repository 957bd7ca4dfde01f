//! Taking more than the session's share, as far as a process learns of its bound by an error. Floods that end the session are
//! tried elsewhere.

use super::{NONE, Probe, Without, probe};

const BOUND: &str = "the host has other bounds";

pub(super) fn probes() -> Vec<Probe> {
    let filled = |place: &str| {
        format!(
            "p = {place} + '/fill'\nd = os.open(p, os.O_CREAT | os.O_WRONLY)\n\
             try:\n    for at in range(0, 1 << 36, 1 << 24): os.posix_fallocate(d, at, 1 << 24)\nfinally: os.unlink(p)"
        )
    };
    let emptied = |place: &str| {
        format!(
            "p = {place} + '/many'\nos.mkdir(p)\ntry:\n    for n in range(1_100_000): os.mknod(f'{{p}}/{{n}}')\n\
             finally: subprocess.run(['rm', '-rf', p])"
        )
    };
    vec![
        probe("fd bomb", "flood(100_000, lambda n: os.open('/dev/null', os.O_RDONLY))", &["EMFILE"], Without(BOUND)),
        probe(
            "fork bomb",
            "p = subprocess.run(['sh', '-c', 'while :; do sleep 15 >/dev/null 2>&1 & done'], capture_output=True, text=True)\nif 'Cannot fork' in p.stderr: fail(errno.EAGAIN)",
            &["EAGAIN"],
            Without(BOUND),
        ),
        probe(
            "threads",
            "import threading\ndef again(n):\n    try: threading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n    except RuntimeError: fail(errno.EAGAIN)\nflood(5000, again)",
            &["EAGAIN"],
            Without(BOUND),
        ),
        probe("disk fill: /tmp", filled("'/tmp'"), &["ENOSPC"], Without(BOUND)),
        probe("disk fill: /dev/shm", filled("'/dev/shm'"), &["ENOSPC"], Without(BOUND)),
        probe("inode fill: /tmp", emptied("'/tmp'"), &["ENOSPC"], Without(BOUND)),
        probe("inode fill: /dev/shm", emptied("'/dev/shm'"), &["ENOSPC"], Without(BOUND)),
        probe(
            "terminals without end",
            "flood(5000, lambda n: os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY))",
            &["ENOSPC", "ENOENT", "EMFILE"],
            Without(BOUND),
        ),
        probe(
            "watches without end",
            "flood(100_000, lambda n: libc.inotify_init() >= 0 or fail(errno.EMFILE))",
            &["EMFILE"],
            Without(BOUND),
        ),
        probe(
            "message queues without end",
            "a = (ctypes.c_long * 8)(0, 10, 8192)\nflood(5000, lambda n: call('mq_open', text(f'probe{n}'), 0o102, 0o600, a))",
            &["EMFILE", "ENOSPC", "EACCES"],
            Without(BOUND),
        ),
        probe(
            "timers without end",
            "flood(1_000_000, lambda n: call('timer_create', 1, 0, ctypes.byref(ctypes.c_int())))",
            &["EAGAIN"],
            Without(BOUND),
        ),
        probe(
            "descriptors in flight without end",
            "def again(n):\n    a, b = socket.socketpair()\n    socket.send_fds(a, [b'x'], [0] * 250)\n    return a, b\nflood(5000, again)",
            &["ETOOMANYREFS", "EMFILE"],
            Without(BOUND),
        ),
        probe(
            "message queues of the old kind without end",
            "flood(100_000, lambda n: call('msgget', 0, 0o1600))",
            &["ENOSPC"],
            Without("those of the host would be taken"),
        ),
        probe(
            "semaphores without end",
            "flood(100_000, lambda n: call('semget', 0, 250, 0o1600))",
            &["ENOSPC"],
            Without("those of the host would be taken"),
        ),
        probe(
            "shared memory without end",
            "flood(100_000, lambda n: call('shmget', 0, 4096, 0o1600))",
            &["ENOSPC"],
            Without("those of the host would be taken"),
        ),
        probe("memory at once", "mmap.mmap(-1, 1 << 46)", &["ENOMEM"], Without(BOUND)),
        probe(
            "what was left of my floods",
            "seen = 'none' if os.statvfs('/tmp').f_bavail * os.statvfs('/tmp').f_frsize > 1 << 20 else 'OK'",
            NONE,
            Without("looks at what there is"),
        ),
    ]
}
