//! A helper that confines itself and says, line by line, what it can still do: for this crate's tests.
//!
//! ```text
//! confined USER READABLE ELSEWHERE SCRATCH PORT PID [THREADS]
//! ```
//!
//! `USER` is a number or `-`; `READABLE` and `ELSEWHERE` are files, `SCRATCH` a directory anyone may write to, `PORT` of a
//! listener on the loopback, `PID` of another process of the same user. After it has confined itself it says so and waits for
//! its standard input to end, so that it can be looked at.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Command;

use stead_sandbox::{Confinement, confine};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [user, readable, elsewhere, scratch, port, pid, rest @ ..] = arguments.as_slice() else {
        return Err("confined USER READABLE ELSEWHERE SCRATCH PORT PID [THREADS]".into());
    };
    let (user, port, pid): (Option<u32>, u16, i64) = (user.parse().ok(), port.parse()?, pid.parse()?);
    if !rest.is_empty() {
        std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_mins(1)));
    }
    let system = ["/etc", "/usr", "/lib", "/lib64", "/no/such/path"].map(Path::new);
    let paths: Vec<&Path> = system.into_iter().chain([Path::new(readable)]).collect();
    let landlock = confine(&Confinement { user, readable: &paths, open_files: 64 })?;
    let mut output = io::stdout();
    writeln!(output, "confined {landlock:?}")?;
    output.flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;

    let (elsewhere, scratch) = (Path::new(elsewhere), Path::new(scratch));
    let mut say = |name: &str, outcome: io::Result<()>| {
        let text = outcome.map_or_else(|error| error.to_string(), |()| "can".into());
        writeln!(output, "{name}: {text}")
    };
    say("read", fs::read(readable).map(drop))?;
    say("list", fs::read_dir("/etc/ssl").map(drop))?;
    say("resolve", ("localhost", port).to_socket_addrs().map(drop))?;
    say("connect", converse(port))?;
    say("datagrams", UdpSocket::bind("127.0.0.1:0").map(drop))?;
    say("threads", std::thread::Builder::new().spawn(|| ()).map(drop))?;
    say("pair", UnixStream::pair().map(drop))?;

    say("read elsewhere", fs::read(elsewhere).map(drop))?;
    say("list elsewhere", fs::read_dir(scratch).map(drop))?;
    say("write a readable file", OpenOptions::new().append(true).open(readable).map(drop))?;
    say("write elsewhere", OpenOptions::new().write(true).open(elsewhere).map(drop))?;
    say("make a file", File::create(scratch.join("new")).map(drop))?;
    say("make a directory", fs::create_dir(scratch.join("new")))?;
    say("remove", fs::remove_file(elsewhere))?;
    say("link", fs::hard_link(elsewhere, scratch.join("new")))?;
    say("truncate", call(libc::SYS_truncate, [c_path(elsewhere)?.as_ptr() as i64, 0, 0]))?;
    say("change the mode", fs::set_permissions(elsewhere, std::os::unix::fs::PermissionsExt::from_mode(0o600)))?;
    say("execute", Command::new("/bin/true").status().map(drop))?;
    say("fork", call(libc::SYS_clone, [i64::from(libc::SIGCHLD), 0, 0]))?;
    say("signal", call(libc::SYS_kill, [pid, 0, 0]))?;
    say("signal a thread", call(libc::SYS_tgkill, [pid, pid, 0]))?;
    say("trace", call(libc::SYS_ptrace, [i64::from(libc::PTRACE_SEIZE), pid, 0]))?;
    say("look at", call(libc::SYS_pidfd_open, [pid, 0, 0]))?;
    say("namespaces", call(libc::SYS_unshare, [i64::from(libc::CLONE_NEWUSER), 0, 0]))?;
    say("vsock", call(libc::SYS_socket, [i64::from(libc::AF_VSOCK), i64::from(libc::SOCK_STREAM), 0]))?;
    say("local socket", call(libc::SYS_socket, [i64::from(libc::AF_UNIX), i64::from(libc::SOCK_STREAM), 0]))?;
    say("listen", std::net::TcpListener::bind("127.0.0.1:0").map(drop))?;
    say("local datagrams", UnixDatagram::pair().map(drop))?;
    say("become root", call(libc::SYS_setresuid, [0, 0, 0]))?;
    say("shared memory", call(libc::SYS_shmget, [1, 1, i64::from(libc::IPC_CREAT)]))?;
    let files: Vec<_> = (0..100).map_while(|_| File::open(readable).ok()).collect();
    writeln!(output, "files: {}", files.len())?;
    Ok(())
}

fn converse(port: u16) -> io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"hello")?;
    stream.read_exact(&mut [0; 5])
}

fn c_path(path: &Path) -> Result<std::ffi::CString, std::ffi::NulError> {
    std::ffi::CString::new(path.as_os_str().as_encoded_bytes())
}

fn call(number: libc::c_long, [first, second, third]: [i64; 3]) -> io::Result<()> {
    // SAFETY: each call is one that the filter must refuse. Should it let one through, the arguments are plain numbers or a path
    // that lives across the call, and a new process would only go on printing.
    #[expect(unsafe_code, reason = "calls that have no safe wrapper, to see them refused")]
    let outcome = unsafe { libc::syscall(number, first, second, third, 0, 0) };
    if outcome >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
