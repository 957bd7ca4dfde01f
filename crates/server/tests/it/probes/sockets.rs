//! Kinds of sockets: what is not for a network of this sandbox alone, or would have the kernel load a module.

use super::{EACCES, EPERM, Probe, Reaches, Succeeds, Without, probe};

const FAMILIES: [(&str, i32, i32); 24] = [
    ("AF_VSOCK", 40, 1),
    ("AF_PACKET", 17, 3),
    ("AF_ALG", 38, 5),
    ("AF_BLUETOOTH", 31, 3),
    ("AF_KEY", 15, 3),
    ("AF_XDP", 44, 3),
    ("AF_SMC", 43, 1),
    ("AF_CAN", 29, 3),
    ("AF_TIPC", 30, 1),
    ("AF_RDS", 21, 5),
    ("AF_NFC", 39, 5),
    ("AF_LLC", 26, 2),
    ("AF_AX25", 3, 5),
    ("AF_IPX", 4, 2),
    ("AF_APPLETALK", 5, 2),
    ("AF_X25", 9, 5),
    ("AF_PPPOX", 24, 1),
    ("AF_IB", 27, 1),
    ("AF_MPLS", 28, 2),
    ("AF_PHONET", 35, 2),
    ("AF_IEEE802154", 36, 3),
    ("AF_KCM", 41, 5),
    ("AF_QIPCRTR", 42, 2),
    ("AF_MCTP", 45, 2),
];

const PROTOCOLS: [(&str, i32, i32, i32); 14] = [
    ("raw", 2, 3, 1),
    ("raw, all protocols", 2, 3, 255),
    ("raw, version 6", 10, 3, 58),
    ("SCTP", 2, 1, 132),
    ("SCTP, version 6", 10, 5, 132),
    ("SCTP by sequenced packets", 2, 5, 0),
    ("DCCP", 2, 6, 33),
    ("UDPLITE", 2, 2, 136),
    ("MPTCP", 2, 1, 262),
    ("L2TP", 2, 2, 115),
    ("GRE", 2, 3, 47),
    ("packets of the old kind", 2, 10, 3),
    ("reliable datagrams", 2, 4, 0),
    ("SMC by protocol", 2, 1, 256),
];

pub(super) fn probes() -> Vec<Probe> {
    let mut probes = Vec::new();
    for (name, family, kind) in FAMILIES {
        probes.push(probe(name, format!("socket_of({family}, {kind})"), EPERM, Reaches));
    }
    for (name, family, kind, protocol) in PROTOCOLS {
        let code = format!("socket_of({family}, {kind}, {protocol})");
        probes.push(probe(format!("socket: {name}"), code, EPERM, Reaches));
    }
    for protocol in 1..=22 {
        // Events and the generic family are in every kernel.
        let control = if [15, 16].contains(&protocol) { Succeeds } else { Reaches };
        let code = format!("socket_of(16, 3, {protocol})");
        probes.push(probe(format!("AF_NETLINK, protocol {protocol}"), code, EPERM, control));
    }
    let every = "left = []\nfor f in range(0, 64):\n    if f in (1, 2, 10, 16): continue\n    for k in (1, 2, 3, 5):\n        \
        try: socket_of(f, k); left.append(f)\n        except PermissionError: pass\n        except OSError as e: left.append((f, k, e.errno))\n\
        seen = left or 'none'";
    probes.extend([
        probe("every other family", every, &["none"], Without("the rows before have theirs")),
        probe(
            "a family with bits that the kernel does not see",
            "call('socket', (1 << 32) | 40, 1, 0)",
            EPERM,
            Reaches,
        ),
        probe("echo requests", "socket_of(2, 2, 1)", EACCES, Without("the machine may allow them to nobody")),
        probe("a pair of another family", "call('socketpair', 2, 1, 0, 0)", EPERM, Reaches),
        probe("a pair of hypervisor sockets", "call('socketpair', 40, 1, 0, 0)", EPERM, Reaches),
        probe(
            "a protocol above mine",
            "with socket.socket() as s: s.setsockopt(6, 31, b'espintcp')",
            &["ENOENT", "ENOTCONN", "EPERM"],
            Without("a module of the host"),
        ),
        probe(
            "filter packets by a program",
            "option(socket.SOL_SOCKET, 50, 0x7fffffff)",
            &["EBADF", "EPERM"],
            Without("no such program"),
        ),
    ]);
    probes
}
