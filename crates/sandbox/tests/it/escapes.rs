//! Ways out of a sandbox, tried from inside a real one. Each row prints what was seen.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

use stead_sandbox::Exit;
use stead_sandbox::plan::Ids;

use crate::fixture::Bench;

const NOT_PERMITTED: &[&str] = &["not permitted", "ermission denied", "must be superuser"];
const ABSENT: &[&str] = &["No such file", "nonexistent", "Directory nonexistent"];
const SEALED: &[&str] = &["Read-only file system"];

#[test]
fn ways_out_are_closed() {
    let loopback = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = loopback.local_addr().unwrap().port();
    let name = format!("stead-sandbox-escape-{}", std::process::id());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();

    let mut neighbour = Bench::new();
    fs::write(neighbour.path("workspace/secret"), "neighbour\n").unwrap();
    let (other, _output) = neighbour.start("exec sleep 1000").unwrap();
    let other_pid = other.pid;
    let host_pid = std::process::id();

    let mut bench = Bench::new();
    let outside = bench.path("outside");
    fs::write(&outside, "outside\n").unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o666)).unwrap();
    let outside = outside.display();
    // A set-uid program of the sandbox's own root where it has one, as a careless host might leave one.
    let setuid = bench.path("workspace/setuid");
    fs::copy("/usr/bin/id", &setuid).unwrap();
    if let Ids::Range { first, .. } = bench.plan.ids {
        chown(&setuid, Some(first), Some(first)).unwrap();
    }
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o6755)).unwrap();

    let connect = |address: &str, family: &str| {
        format!(
            "python3 -c \"import socket; s = socket.socket(socket.{family}); s.settimeout(3); s.connect({address})\""
        )
    };
    let rows: Vec<(&str, String, &[&str])> = vec![
        ("remount writable", "mount -o remount,rw,bind /env/project".into(), NOT_PERMITTED),
        ("unmount a layer", "umount -l /env/project".into(), &["umount failed", "not permitted"]),
        ("mount over a layer", "mount -t tmpfs t /env/project".into(), NOT_PERMITTED),
        ("nested user namespace", "unshare -Urm sh -c 'mount -o remount,rw,bind /env/project'".into(), NOT_PERMITTED),
        ("another's namespace", "nsenter -t 1 -m true".into(), NOT_PERMITTED),
        ("character device", "mknod /tmp/n c 1 1".into(), NOT_PERMITTED),
        ("block device", "mknod /tmp/b b 254 0".into(), NOT_PERMITTED),
        ("device on the workspace", "mknod /workspace/b b 254 0".into(), NOT_PERMITTED),
        ("/dev/mem", "cat /dev/mem".into(), ABSENT),
        ("/dev/kmsg", "cat /dev/kmsg".into(), ABSENT),
        ("/dev/kvm", "cat /dev/kvm".into(), ABSENT),
        ("/dev/fuse", "cat /dev/fuse".into(), ABSENT),
        ("/dev/tty", ": > /dev/tty".into(), &["No such", "nonexistent", "Read-only", "cannot create"]),
        ("host disk", "cat /dev/vda /dev/sda /dev/nvme0n1".into(), ABSENT),
        ("become root", "su -c id".into(), &["uthentication failure", "Critical error", "not permitted", "ermission"]),
        ("trace", "strace -p 1".into(), &["not permitted"]),
        ("host process", format!("ls /proc/{host_pid}/root/ || test -d /proc/{host_pid}"), ABSENT),
        ("neighbour's files", format!("ls /proc/{other_pid}/root/workspace"), ABSENT),
        ("signal a neighbour", format!("kill -0 {other_pid}"), &["No such process"]),
        ("signal everyone", "python3 -c 'import os; os.kill(-1, 0)'".into(), &["ProcessLookupError"]),
        ("host path", format!("cat {outside}"), ABSENT),
        ("host path through a link", format!("ln -sf {outside} /workspace/l; cat /workspace/l"), ABSENT),
        ("host /etc through a link", "ln -sfn / /workspace/root; cat /workspace/root/etc/shadow".into(), ABSENT),
        ("climb out", "cat /../../../../../etc/shadow".into(), ABSENT),
        ("root's home", "ls /root".into(), ABSENT),
        ("link a layer's file", "ln /env/project/own /workspace/hard".into(), &["cross-device"]),
        ("write a layer", ": > /proc/self/root/env/project/own".into(), SEALED),
        ("replace the dynamic loader's cache", ": > /etc/ld.so.cache".into(), SEALED),
        ("change certificates", "touch /etc/ssl/certs/x".into(), SEALED),
        ("release agent", "echo x > /sys/fs/cgroup/memory/release_agent".into(), ABSENT),
        ("uevent helper", "echo x > /sys/kernel/uevent_helper".into(), ABSENT),
        ("core pattern", "echo x > /proc/sys/kernel/core_pattern".into(), NOT_PERMITTED),
        ("any sysctl", "echo 1 > /proc/sys/net/ipv4/ip_forward".into(), NOT_PERMITTED),
        ("user namespaces again", "echo 9 > /proc/sys/user/max_user_namespaces".into(), NOT_PERMITTED),
        ("system request", "echo h > /proc/sysrq-trigger".into(), &["ermission denied", "No such", "nonexistent"]),
        ("kernel memory", "cat /proc/kcore".into(), &["ermission denied", "No such"]),
        (
            "spare me from the killer",
            "echo -1000 > /proc/self/oom_score_adj".into(),
            &["ermission denied", "I/O error"],
        ),
        ("raise a limit", "ulimit -n 4096".into(), &["not permitted", "Illegal", "error setting limit"]),
        ("engine socket", "ls /var/run/docker.sock /run/docker.sock".into(), ABSENT),
        ("host loopback", connect(&format!("('127.0.0.1', {port})"), "AF_INET"), &["ConnectionRefused"]),
        ("host abstract socket", connect(&format!("'\\0{name}'"), "AF_UNIX"), &["ConnectionRefused"]),
        ("metadata address", connect("('169.254.169.254', 80)", "AF_INET"), &["unreachable"]),
        ("private address", connect("('10.0.0.1', 80)", "AF_INET"), &["unreachable"]),
        ("public address", connect("('192.0.2.1', 443)", "AF_INET"), &["unreachable"]),
        ("public address, version 6", connect("('2001:db8::1', 443)", "AF_INET6"), &["unreachable", "Cannot assign"]),
        ("names", "python3 -c \"import socket; socket.getaddrinfo('example.com', 80)\"".into(), &["gaierror"]),
        (
            "raw packets",
            "python3 -c \"import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\"".into(),
            NOT_PERMITTED,
        ),
        ("an address of my own", "ip addr add 10.0.0.2/8 dev lo".into(), &["not permitted", "not found"]),
        // Where no user 0 is mapped there is none to become.
        ("root again", "python3 -c \"import os; os.setuid(0)\"".into(), &["not permitted", "Invalid argument"]),
        ("host name", "hostname other".into(), &["not permitted", "must be root"]),
    ];
    for (probe, script, refusals) in &rows {
        let ran = bench.run(&format!("({script}) 2>&1"));
        let seen = ran.output.lines().last().unwrap_or("(nothing)");
        println!("{probe:<36} {seen}");
        assert_ne!(ran.exit, Exit::Code(0), "{probe}: {script} was not refused: {}", ran.output);
        assert!(refusals.iter().any(|refusal| ran.output.contains(refusal)), "{probe}: {script}: {}", ran.output);
    }
    let gained = bench.run("/workspace/setuid; grep -c . /proc/self/mountinfo; grep -v nosuid /proc/self/mountinfo");
    println!("set-uid copy: {}", gained.output);
    assert!(gained.output.starts_with("uid=1000(agent) gid=1000(agent) groups=1000(agent)\n"), "{}", gained.output);
    assert_eq!(gained.output.lines().count(), 2, "a mount honours set-uid bits: {}", gained.output);
    assert!(gained.exit != Exit::Code(0), "grep found none");

    other.kill().unwrap();
    other.wait(std::time::Duration::from_secs(5)).unwrap();
    assert!(!Path::new("/workspace/setuid").exists());
}

#[test]
fn ordinary_work_is_not_in_the_way() {
    let mut bench = Bench::new();
    bench.plan.pseudo_terminals = true;
    let program = r"
import asyncio, concurrent.futures, multiprocessing, os, pty, socket, sqlite3, ssl, subprocess, tempfile, threading
with concurrent.futures.ThreadPoolExecutor(4) as pool: assert sum(pool.map(lambda x: x, range(10))) == 45
assert subprocess.run(['bash', '-c', 'echo $((6*7)) | cat'], capture_output=True).stdout == b'42\n'
async def serve():
    async def hello(reader, writer): writer.write(await reader.readline()); writer.close()
    server = await asyncio.start_server(hello, '127.0.0.1', 8000)
    reader, writer = await asyncio.open_connection('127.0.0.1', 8000)
    writer.write(b'ping\n'); assert await reader.read() == b'ping\n'
    server.close()
asyncio.run(serve())
lock = multiprocessing.Lock()
with lock: pass
os.mkfifo('/tmp/fifo')
a, b = socket.socketpair(); a.sendall(b'x'); assert b.recv(1) == b'x'
u = socket.socket(socket.AF_UNIX); u.bind('/workspace/s'); u.listen()
assert len(ssl.create_default_context().get_ca_certs()) > 10
d = sqlite3.connect('/workspace/d.sqlite'); d.execute('create table t(x)'); d.commit()
with tempfile.NamedTemporaryFile() as f: f.write(b'x'); f.flush(); os.fsync(f.fileno())
os.rename('/workspace/d.sqlite', '/home/agent/x') if False else os.replace('/workspace/d.sqlite', '/workspace/e.sqlite')
os.makedirs('/workspace/p/q'); os.rename('/workspace/e.sqlite', '/workspace/p/q/e')
master, slave = pty.openpty(); os.write(slave, b'hi'); assert os.read(master, 2) == b'hi'
print(os.getuid(), os.path.expanduser('~'), socket.gethostname(), os.cpu_count() > 0, 'fine')
";
    let ran = bench.python(program);
    println!("{}", ran.output);
    assert_eq!(ran.exit, Exit::Code(0), "{}", ran.output);
    assert!(ran.output.ends_with("1000 /home/agent probe True fine\n"));
    if Path::new("/usr/bin/node").exists() {
        bench.plan.limits.memory_bytes = 2 << 30;
        let ran = bench.run(
            "/usr/bin/node -e \"const w=new (require('worker_threads').Worker)('process.exit(0)',{eval:true});w.on('exit',()=>require('fs').promises.writeFile('/workspace/n','x').then(()=>console.log('node fine')))\"",
        );
        println!("{}", ran.output);
        assert!(ran.output.contains("node fine"), "{}", ran.output);
    }
}
