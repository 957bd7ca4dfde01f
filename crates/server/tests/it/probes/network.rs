//! Reaching what is not in the session: by address, by name, by the proxy.

use super::{EACCES, ENOENT, EPERM, NONE, Probe, Succeeds, SucceedsOnHost, Without, probe};

const UNREACHABLE: &[&str] = &["ENETUNREACH", "EADDRNOTAVAIL"];
const REFUSED: &[&str] = &["ECONNREFUSED"];

pub(super) fn probes() -> Vec<Probe> {
    let mut probes = addresses();
    probes.extend(host());
    probes.extend(interfaces());
    probes.extend(proxy());
    probes
}

/// Datagram sockets connect without sending anything.
fn addresses() -> Vec<Probe> {
    [
        ("metadata", "169.254.169.254"),
        ("private, 10", "10.0.0.1"),
        ("private, 172", "172.17.0.1"),
        ("private, 192", "192.168.0.1"),
        ("shared", "100.64.0.1"),
        ("public", "192.0.2.1"),
        ("broadcast address of the host", "192.0.2.255"),
        ("version 6, public", "2001:db8::1"),
        ("version 6, private", "fd00::1"),
        ("version 6, metadata", "fd00:ec2::254"),
        ("version 6, mapped", "::ffff:10.0.0.1"),
    ]
    .into_iter()
    .flat_map(|(name, address)| {
        let family = if address.contains(':') { "AF_INET6" } else { "AF_INET" };
        let datagram = format!("connected(socket.{family}, socket.SOCK_DGRAM, ('{address}', 80))");
        let stream = format!("connected(socket.{family}, socket.SOCK_STREAM, ('{address}', 443))");
        [
            probe(format!("egress by address: {name}"), datagram, UNREACHABLE, Succeeds),
            probe(format!("egress by address, a connection: {name}"), stream, UNREACHABLE, Without("the datagram before it has one")),
        ]
    })
    .chain([
        probe("egress by address: multicast", "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s: s.sendto(b'x', ('224.0.0.251', 5353))", UNREACHABLE, Succeeds),
        probe("egress by address: broadcast", "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s: s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); s.sendto(b'x', ('255.255.255.255', 9))", &["ENETUNREACH", "EACCES"], Succeeds),
        probe("egress by address: the link's neighbours", "connected(socket.AF_INET6, socket.SOCK_DGRAM, ('fe80::1', 80, 0, 2))", &["ENETUNREACH", "EADDRNOTAVAIL", "EINVAL", "ENODEV"], Without("the second interface is the machine's")),
        probe("names", "socket.getaddrinfo('example.com', 80)", &["gaierror"], Without("the machine may have no names")),
        probe("names by asking a server", "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s: s.sendto(b'x', ('127.0.0.53', 53)); s.settimeout(1); s.recv(1)", &["ECONNREFUSED", "TIMEOUT"], Without("the machine may have no names")),
    ])
    .collect()
}

fn host() -> Vec<Probe> {
    vec![
        probe(
            "host loopback service",
            "connected(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', HOST_PORT))",
            REFUSED,
            SucceedsOnHost,
        ),
        probe(
            "host loopback service by version 6",
            "connected(socket.AF_INET6, socket.SOCK_STREAM, ('::ffff:127.0.0.1', HOST_PORT))",
            REFUSED,
            SucceedsOnHost,
        ),
        probe(
            "host loopback service by another name",
            "connected(socket.AF_INET, socket.SOCK_STREAM, ('0.0.0.0', HOST_PORT))",
            REFUSED,
            SucceedsOnHost,
        ),
        probe(
            "the server itself",
            "connected(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', SERVER_PORT))",
            REFUSED,
            SucceedsOnHost,
        ),
        probe(
            "abstract unix socket of the host",
            "connected(socket.AF_UNIX, socket.SOCK_STREAM, '\\0' + HOST_ABSTRACT)",
            &["ECONNREFUSED", "EPERM"],
            SucceedsOnHost,
        ),
        probe(
            "unix socket of the host",
            "connected(socket.AF_UNIX, socket.SOCK_STREAM, HOST_SOCKET)",
            ENOENT,
            SucceedsOnHost,
        ),
        probe(
            "unix socket of the host by process 1",
            "connected(socket.AF_UNIX, socket.SOCK_STREAM, '/proc/1/root' + HOST_SOCKET)",
            &["EACCES", "ENOENT"],
            Without("process 1 of the machine may be closed"),
        ),
        probe(
            "engine socket",
            "connected(socket.AF_UNIX, socket.SOCK_STREAM, '/var/run/docker.sock')",
            ENOENT,
            Without("the machine may have no engine"),
        ),
        probe(
            "the runtime's socket",
            "connected(socket.AF_UNIX, socket.SOCK_STREAM, DATA + '/run/runtime.sock')",
            ENOENT,
            Without("its name is the server's affair"),
        ),
        probe(
            "sockets of the host in /proc",
            "seen = 'OK' if HOST_ABSTRACT in open('/proc/net/unix').read() else 'none'",
            NONE,
            SucceedsOnHost,
        ),
        probe(
            "connections of the host in /proc",
            "seen = 'OK' if f':{HOST_PORT:04X} ' in open('/proc/net/tcp').read() else 'none'",
            NONE,
            SucceedsOnHost,
        ),
        probe(
            "routes",
            "seen = [l.split()[0] for l in open('/proc/net/route').read().splitlines()[1:]] or 'none'",
            NONE,
            Without("looks at what there is"),
        ),
        probe(
            "interfaces beside loopback",
            "seen = [n for _, n in socket.if_nameindex() if n != 'lo'] or 'none'",
            NONE,
            Without("the kernel makes some by itself"),
        ),
    ]
}

fn interfaces() -> Vec<Probe> {
    // RTM_NEWADDR of 10.9.8.7/32 at the loopback interface.
    let address = "a = struct.pack('BBBBi', 2, 32, 0, 0, 1) + struct.pack('HH', 8, 2) + socket.inet_aton('10.9.8.7')\n\
        m = struct.pack('IHHII', 16 + len(a), 20, 0x605, 1, 0) + a\n\
        s = socket.socket(16, socket.SOCK_RAW, 0)\ns.sendto(m, (0, 0))\ne = struct.unpack('i', s.recv(4096)[16:20])[0]\nif e: fail(-e)";
    // RTM_NEWROUTE of 10.9.0.0/16 through it.
    let route = "a = struct.pack('BBBBBBBBI', 2, 16, 0, 0, 254, 4, 253, 1, 0) + struct.pack('HH', 8, 1) + socket.inet_aton('10.9.0.0') + struct.pack('HHi', 8, 4, 1)\n\
        m = struct.pack('IHHII', 16 + len(a), 24, 0x605, 1, 0) + a\n\
        s = socket.socket(16, socket.SOCK_RAW, 0)\ns.sendto(m, (0, 0))\ne = struct.unpack('i', s.recv(4096)[16:20])[0]\nif e: fail(-e)";
    vec![
        probe("an address of my own", address, EPERM, Succeeds),
        probe("a route of my own", route, EPERM, Succeeds),
        probe(
            "take an interface down",
            "with socket.socket() as s: fcntl.ioctl(s, 0x8914, struct.pack('16sh14x', b'lo', 0x48))",
            EPERM,
            Succeeds,
        ),
        probe(
            "a bridge of my own",
            "with socket.socket() as s: fcntl.ioctl(s, 0x89a0, b'probe0\\0')",
            &["EPERM", "ENOPKG", "EOPNOTSUPP", "ENOTTY"],
            Without("not in every kernel"),
        ),
        probe("a low port", "with socket.socket() as s: s.bind(('127.0.0.1', 80))", EACCES, Succeeds),
        probe("a transparent socket", "option(0, 19, 1)", EPERM, Succeeds),
        probe("a marked socket", "option(socket.SOL_SOCKET, 36, 1)", EPERM, Succeeds),
        probe("buffers beyond the bound", "option(socket.SOL_SOCKET, 33, 1 << 26)", EPERM, Succeeds),
        probe("a priority above others", "option(socket.SOL_SOCKET, 12, 7)", EPERM, Succeeds),
        probe("a connection taken over", "option(6, 19, 1)", EPERM, Succeeds),
        probe(
            "firewall rules",
            "option(0, 64, bytes(128), kind=socket.SOCK_DGRAM)",
            &["EPERM", "ENOPROTOOPT"],
            Without("not in every kernel"),
        ),
    ]
}

/// A handle of the process that listens, which is the host's, by way of a connection.
const MAKER: &str = "s = socket.socket(socket.AF_UNIX); s.connect('/run/egress/proxy.sock')\np = s.getsockopt(1, 77)\n";
const NEWER: &str = "newer than some kernels";

/// The one way out there is, asked for what it must not give.
fn proxy() -> Vec<Probe> {
    const NO: &[&str] = &["403", "400", "502"];
    let asked = |what: &str| {
        format!(
            "s = socket.socket(socket.AF_UNIX); s.settimeout(10)\ns.connect('/run/egress/proxy.sock')\n\
             s.sendall(f'{what}\\r\\n\\r\\n'.encode())\nseen = s.recv(64).decode().split(' ')[1]"
        )
    };
    const OUTSIDE: &str = "outside there is no proxy";
    [
        ("the host's loopback", "CONNECT 127.0.0.1:{HOST_PORT} HTTP/1.1\\r\\nHost: 127.0.0.1:{HOST_PORT}"),
        ("the server", "GET http://127.0.0.1:{SERVER_PORT}/v1/environments HTTP/1.1\\r\\nHost: 127.0.0.1:{SERVER_PORT}"),
        ("the metadata service", "GET http://169.254.169.254/latest/ HTTP/1.1\\r\\nHost: 169.254.169.254"),
        ("the metadata service by a connection", "CONNECT 169.254.169.254:443 HTTP/1.1\\r\\nHost: 169.254.169.254:443"),
        ("loopback of version 6", "CONNECT [::1]:443 HTTP/1.1\\r\\nHost: [::1]:443"),
        ("a mapped address", "CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1\\r\\nHost: [::ffff:127.0.0.1]:443"),
        ("a number for an address", "CONNECT 2130706433:443 HTTP/1.1\\r\\nHost: 2130706433:443"),
        ("a private address", "CONNECT 10.0.0.1:443 HTTP/1.1\\r\\nHost: 10.0.0.1:443"),
        ("another port", "CONNECT 192.0.2.1:22 HTTP/1.1\\r\\nHost: 192.0.2.1:22"),
        ("a name of the host", "CONNECT localhost:443 HTTP/1.1\\r\\nHost: localhost:443"),
        ("no port at all", "CONNECT 192.0.2.1 HTTP/1.1\\r\\nHost: 192.0.2.1"),
    ]
    .into_iter()
    .map(|(name, request)| probe(format!("proxy: {name}"), asked(request), NO, Without(OUTSIDE)))
    .chain([
        probe(
            "proxy: signal whoever made its socket",
            format!("{MAKER}signal.pidfd_send_signal(p, 0)"),
            &["EINVAL", "EPERM", "ENOPROTOOPT"],
            Without(NEWER),
        ),
        probe(
            "proxy: namespaces of whoever made its socket",
            format!("{MAKER}got = []\nfor n in range(1, 11):\n    try: got += [(n, fcntl.ioctl(p, 0xff00 + n, 0))]\n    except OSError: pass\nseen = got or 'none'"),
            &["none", "ENOPROTOOPT"],
            Without(NEWER),
        ),
        probe(
            "proxy: what whoever made its socket is",
            format!("{MAKER}fcntl.ioctl(p, 0xc040ff0b, bytearray(struct.pack('Q', 0x7f) + bytes(56)))"),
            &["EREMOTE", "ESRCH", "ENOTTY", "EINVAL", "EACCES", "ENOPROTOOPT"],
            Without(NEWER),
        ),
        probe("proxy: remove its socket", "os.unlink('/run/egress/proxy.sock')", &["EROFS", "EACCES", "EBUSY"], Without(OUTSIDE)),
        probe("proxy: put another in its place", "s = socket.socket(socket.AF_UNIX)\ns.bind('/run/egress/proxy.sock')", &["EADDRINUSE", "EROFS", "EACCES"], Without(OUTSIDE)),
        probe("proxy: its directory on the host", "os.listdir(DATA + '/run')", ENOENT, SucceedsOnHost),
        probe("proxy: who it is", "s = socket.socket(socket.AF_UNIX); s.connect('/run/egress/proxy.sock')\np = struct.unpack('iII', s.getsockopt(1, 17, 12))\nseen = 'none' if p[0] == 0 and p[1] in (0, 65534, os.getuid()) else p", NONE, Without(OUTSIDE)),
        probe("proxy: descriptors handed to it", "s = socket.socket(socket.AF_UNIX); s.connect('/run/egress/proxy.sock')\nfor _ in range(50): socket.send_fds(s, [b'G'], [0] * 100)\ns.settimeout(5)\ns.shutdown(1)\nseen = s.recv(64).split(b' ')[1].decode() if s else ''", &["400", "431", "EPIPE", "ECONNRESET", "ETOOMANYREFS", "IndexError: list index out of range", "TIMEOUT"], Without(OUTSIDE)),
        probe("proxy: the port inside taken over", "s = socket.socket()\ns.setsockopt(1, 2, 1); s.setsockopt(1, 15, 1)\ns.bind(('127.0.0.1', 3128))\ns.listen()", &["EADDRINUSE"], Without(OUTSIDE)),
    ])
    .collect()
}
