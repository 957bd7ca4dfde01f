//! Mounting, by the old calls and the new.

use super::{ENOSYS, EPERM, Probe, Reaches, Succeeds, Without, probe};

pub(super) fn probes() -> Vec<Probe> {
    let mut probes = old();
    probes.extend(new());
    probes
}

fn old() -> Vec<Probe> {
    let file_system = |kind: &str| {
        probe(
            format!("mount a file system: {kind}"),
            format!("os.makedirs(WORK + '/at', exist_ok=True)\nmount('x', WORK + '/at', '{kind}', 0)"),
            EPERM,
            Succeeds,
        )
    };
    let mut probes = vec![
        probe(
            "remount writable",
            "if CONTROL: mount(LAYER, LAYER, None, 0x1000); mount(None, LAYER, None, 0x1021)\nmount(None, LAYER, None, 0x1020)",
            EPERM,
            Succeeds,
        ),
        probe(
            "unmount a layer",
            "if CONTROL: mount(LAYER, LAYER, None, 0x1000)\ncall('umount2', text(LAYER), 2)",
            EPERM,
            Succeeds,
        ),
        probe("unmount /proc", "call('umount2', text('/proc'), 2)", EPERM, Succeeds),
        probe("mount over a layer", "mount('t', LAYER, 'tmpfs', 0)", EPERM, Succeeds),
        probe("bind over a layer", "mount(WORK, LAYER, None, 0x1000)", EPERM, Succeeds),
        probe(
            "move a mount",
            "mount('t', LAYER, 'tmpfs', 0) if CONTROL else None\nmount(LAYER, WORK, None, 0x2000)",
            EPERM,
            Succeeds,
        ),
        probe("share a mount", "mount(None, '/', None, 0x104000)", EPERM, Succeeds),
        probe("remount /proc without its bounds", "mount(None, '/proc', None, 0x1020)", EPERM, Succeeds),
        probe(
            "mount by the program",
            "subprocess.run(['mount', '-t', 'tmpfs', 't', LAYER], capture_output=True).returncode == 0 or fail(errno.EPERM)",
            EPERM,
            Succeeds,
        ),
        probe(
            "mount in a nested user namespace",
            "subprocess.run(['unshare', '-Urm', 'sh', '-c', f'mount -t tmpfs t {LAYER}'], capture_output=True).returncode == 0 or fail(errno.EPERM)",
            EPERM,
            Succeeds,
        ),
        probe(
            "a layer as the lower of my overlay",
            "for n in 'uw': os.makedirs(WORK + '/o/' + n)\nmount('o', WORK, 'overlay', 0, f'lowerdir={LAYER},upperdir={WORK}/o/u,workdir={WORK}/o/w')",
            EPERM,
            Succeeds,
        ),
        probe("pivot_root", "call('pivot_root', BAD, BAD)", EPERM, Reaches),
    ];
    probes.extend(["tmpfs", "proc", "sysfs", "cgroup2", "mqueue", "devpts", "ramfs"].map(file_system));
    probes
}

fn new() -> Vec<Probe> {
    vec![
        probe("new mount API: fsopen", "call('fsopen', text('tmpfs'), 0)", EPERM, Succeeds),
        probe(
            "new mount API: a whole mount",
            "c = call('fsopen', text('tmpfs'), 0)\ncall('fsconfig', c, 6, 0, 0, 0)\nm = call('fsmount', c, 0, 0)\ncall('move_mount', m, text(''), -100, text(WORK), 4)",
            EPERM,
            Succeeds,
        ),
        probe("new mount API: fsconfig", "call('fsconfig', -1, 0, 0, 0, 0)", EPERM, Reaches),
        probe("new mount API: fsmount", "call('fsmount', -1, 0, 0)", EPERM, Reaches),
        probe(
            "new mount API: fspick",
            "if CONTROL: mount('t', WORK, 'tmpfs', 0)\ncall('fspick', -100, text(WORK), 0)",
            EPERM,
            Succeeds,
        ),
        probe("new mount API: open_tree with a clone", "call('open_tree', -100, text(LAYER), 1)", EPERM, Succeeds),
        probe("new mount API: open_tree without one", "call('open_tree', -100, text(LAYER), 0)", EPERM, Succeeds),
        probe("new mount API: move_mount", "call('move_mount', -1, BAD, -1, BAD, 0)", EPERM, Reaches),
        probe(
            "new mount API: mount_setattr",
            "if CONTROL: mount(LAYER, LAYER, None, 0x1000); mount(None, LAYER, None, 0x1021)\na = (ctypes.c_uint64 * 4)(0, 1, 0, 0)\ncall('mount_setattr', -100, text(LAYER), 0, a, 32)",
            EPERM,
            Succeeds,
        ),
        probe(
            "new mount API: open_tree_attr",
            "call(467, -100, text(LAYER), 1, 0, 0)",
            ENOSYS,
            Without("newer than some kernels"),
        ),
        probe(
            "list all mounts",
            "b = (ctypes.c_uint64 * 64)()\nr = (ctypes.c_uint64 * 3)(24, 0xffffffffffffffff, 0)\ncall(458, r, b, 64, 0)",
            EPERM,
            Reaches,
        ),
        probe("look at a mount", "call(457, BAD, BAD, 0, 0)", EPERM, Reaches),
        probe(
            "detached tree by /proc/self/fd",
            "d = call('open_tree', -100, text('/'), 1)\nos.listdir(f'/proc/self/fd/{d}')",
            EPERM,
            Succeeds,
        ),
    ]
}
