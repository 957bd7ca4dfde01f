//! Namespaces: making new ones, entering others, and what a namespace of one's own would open.

use super::{DENIED, EACCES, ENOSYS, EPERM, Probe, Reaches, Succeeds, Without, probe};

const KINDS: [(&str, u64); 8] = [
    ("mnt", 0x0002_0000),
    ("cgroup", 0x0200_0000),
    ("uts", 0x0400_0000),
    ("ipc", 0x0800_0000),
    ("user", 0x1000_0000),
    ("pid", 0x2000_0000),
    ("net", 0x4000_0000),
    ("time", 0x80),
];

/// What a file system without projects says, and one that sees through the attempt.
const NO_PROJECTS: &[&str] = &["EINVAL", "EPERM", "EOPNOTSUPP", "ENOTTY"];

pub(super) fn probes() -> Vec<Probe> {
    let mut probes = Vec::new();
    for (kind, flag) in KINDS {
        probes.push(probe(format!("unshare: {kind}"), format!("call('unshare', {flag:#x})"), EPERM, Succeeds));
        if kind != "time" {
            probes.push(probe(format!("clone: {kind}"), format!("cloned({flag:#x})"), EPERM, Succeeds));
        }
        probes.push(probe(format!("clone3: {kind}"), format!("cloned_by_3({flag:#x})"), ENOSYS, Succeeds));
        // Nobody enters the namespace of users in which he is already.
        let own = if kind == "user" { Reaches } else { Succeeds };
        let enter = format!("d = os.open('/proc/self/ns/{kind}', os.O_RDONLY)\ncall('setns', d, 0)");
        probes.push(probe(format!("setns: own {kind}"), enter, EPERM, own));
        let first = format!("d = os.open('/proc/1/ns/{kind}', os.O_RDONLY)");
        probes.push(probe(format!("the {kind} namespace of process 1"), first, EACCES, Succeeds));
        let look = format!("os.readlink('/proc/1/ns/{kind}')");
        probes.push(probe(format!("which {kind} namespace process 1 has"), look, EACCES, Succeeds));
    }
    probes.extend([
        probe("unshare: user and mnt together", "call('unshare', 0x10020000)", EPERM, Succeeds),
        probe("clone: user and mnt together", "cloned(0x10020000)", EPERM, Succeeds),
        probe("clone: user, with flags of a thread", "call('clone', 0x10000000 | 0x10900, 0, 0, 0, 0)", EPERM, Reaches),
        probe("clone: into a control group", "cloned_by_3(0x200000000)", ENOSYS, Reaches),
        probe("setns: by process 1", "d = call('pidfd_open', 1, 0)\ncall('setns', d, 0x04000000)", EPERM, Succeeds),
        probe("setns: no descriptor", "call('setns', -1, 0)", EPERM, Reaches),
        probe("the user namespace above mine", "d = os.open('/proc/self/ns/user', os.O_RDONLY)\nioctl(d, 0xb702)", EPERM, Without("above the first namespace there is none")),
        probe("the pid namespace above mine", "d = os.open('/proc/self/ns/pid', os.O_RDONLY)\nioctl(d, 0xb702)", EPERM, Without("above the first namespace there is none")),
        probe("the next mount namespace", "d = os.open('/proc/self/ns/mnt', os.O_RDONLY)\nioctl(d, 0x8010b70b, bytearray(16))", &["EPERM", "ENOENT", "ENOTTY", "EINVAL"], Without("there may be none")),
        probe("map users again", "if CONTROL: call('unshare', 0x10000000)\nd = os.open('/proc/self/uid_map', os.O_WRONLY)\nos.write(d, b'0 0 1\\n')", DENIED, Succeeds),
        probe("map groups again", "if CONTROL: call('unshare', 0x10000000); d = os.open('/proc/self/setgroups', os.O_WRONLY); os.write(d, b'deny')\nd = os.open('/proc/self/gid_map', os.O_WRONLY)\nos.write(d, b'0 0 1\\n')", DENIED, Succeeds),
        probe("map projects, and move a file to another", "try: put('/proc/self/projid_map', '0 0 10')\nexcept OSError: pass\nd = os.open(WORK, os.O_RDONLY)\nfcntl.ioctl(d, 0x401c5820, struct.pack('IIIII8x', 0, 0, 0, 7, 0))", NO_PROJECTS, Without("not every file system knows projects")),
        probe("allow setgroups again", "if CONTROL: call('unshare', 0x10000000)\nd = os.open('/proc/self/setgroups', os.O_WRONLY)\nos.write(d, b'allow')", DENIED, Succeeds),
        probe("another clock", "if CONTROL: call('unshare', 0x80)\nd = os.open('/proc/self/timens_offsets', os.O_WRONLY)\nos.write(d, b'1 100 0\\n')", DENIED, Succeeds),
        probe("more user namespaces", "if CONTROL: call('unshare', 0x10000000)\nopened('/proc/sys/user/max_user_namespaces', os.O_WRONLY)", EACCES, Succeeds),
        probe("another host name", "socket.sethostname('other')", EPERM, Succeeds),
        probe("another domain name", "call('setdomainname', text('other'), 5)", EPERM, Succeeds),
    ]);
    probes
}
