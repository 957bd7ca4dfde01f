//! Becoming somebody else.

use super::{EPERM, NONE, Probe, Succeeds, Without, probe};

/// An ordinary user's sandbox has one user, and the kernel knows no other there.
const NOT_MAPPED: &[&str] = &["EPERM", "EINVAL"];

pub(super) fn probes() -> Vec<Probe> {
    const LOOK: &str = "looks at what there is";
    let prctl = |arguments: &str| format!("libc.prctl({arguments}) == 0 or fail(ctypes.get_errno())");
    let status = |field: &str| format!("open('/proc/self/status').read().split('{field}:')[1].split()[0]");
    vec![
        probe("become root", "os.setuid(0)", NOT_MAPPED, Succeeds),
        probe("become root by the saved id", "os.setresuid(0, 0, 0)", NOT_MAPPED, Succeeds),
        probe("become another user", "os.setuid(1001)", NOT_MAPPED, Succeeds),
        probe("become another group", "os.setgid(0)", NOT_MAPPED, Succeeds),
        probe("more groups", "os.setgroups([0])", EPERM, Succeeds),
        probe(
            "root for files alone",
            "libc.setfsuid(0)\nseen = 'none' if libc.setfsuid(-1) == os.getuid() != 0 else 'OK'",
            NONE,
            Succeeds,
        ),
        probe(
            "every capability",
            "h = (ctypes.c_uint32 * 2)(0x20080522, 0)\nd = (ctypes.c_uint32 * 6)(*[0xfffffe, 0xfffffe, 0] * 1, 0, 0, 0)\ncall('capset', h, d)",
            EPERM,
            Succeeds,
        ),
        probe("ambient capability", prctl("47, 2, 21, 0, 0"), EPERM, Without("needs an inheritable one first")),
        probe(
            "capabilities that are left",
            format!(
                "seen = 'none' if not any(int({}, 16) for _ in '1') and not int({}, 16) and not int({}, 16) and not int({}, 16) else 'OK'",
                status("CapEff"),
                status("CapPrm"),
                status("CapBnd"),
                status("CapAmb")
            ),
            NONE,
            Succeeds,
        ),
        probe("secure bits", prctl("28, 0, 0, 0, 0"), EPERM, Succeeds),
        probe(
            "privileges by new programs",
            format!("seen = 'none' if {} == '1' else 'OK'", status("NoNewPrivs")),
            NONE,
            Succeeds,
        ),
        probe("take no_new_privs back", prctl("38, 0, 0, 0, 0"), &["EINVAL"], Without("nobody can")),
        probe("take the filter away", prctl("22, 0, 0, 0, 0"), &["EINVAL", "EPERM"], Without("nobody can")),
        probe(
            "a filter is in force",
            format!("seen = 'none' if {} == '2' else 'OK'", status("Seccomp")),
            NONE,
            Succeeds,
        ),
        probe(
            "groups of the service",
            "seen = os.getgroups() == [] and 'none' or [g for g in os.getgroups() if g not in (os.getgid(), 65534)] or 'none'",
            NONE,
            Without(LOOK),
        ),
        probe(
            "sudo",
            "subprocess.run(['sudo', '-n', 'true'], capture_output=True).returncode == 0 or fail(errno.EPERM)",
            &["EPERM", "ENOENT"],
            Without("the program may not be there"),
        ),
        probe(
            "another user's shell",
            "subprocess.run(['su', 'agent', '-c', 'true'], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0 or fail(errno.EPERM)",
            EPERM,
            Without("the host has no such user"),
        ),
        probe(
            "another group's shell",
            "subprocess.run(['newgrp', 'root'], stdin=subprocess.DEVNULL, capture_output=True); subprocess.run(['sg', 'root', '-c', 'true'], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0 or fail(errno.EPERM)",
            &["EPERM", "ENOENT"],
            Without("asks for a password"),
        ),
    ]
}
