//! This program in the sandbox: tries one thing after the other and says what came of it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::mount::{FsOpenFlags, MountFlags};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Resource, Rlimit};

use super::{Attempt, LAYER, LAYER_FILE, MEMORY_BYTES, PROCESSES, TAKE_MEMORY, TRIAL_NAME};

/// Where nobody is (RFC 5737): without a route the answer comes at once.
const ELSEWHERE: ([u8; 4], u16) = ([192, 0, 2, 1], 80);
const PATIENCE: Duration = Duration::from_secs(2);
/// Not in the libraries' tables of address families: reaches the hypervisor's side from any network namespace.
const VSOCK: u16 = 40;
const PACKET: u16 = 17;

/// Whether this process was started to be the one in the sandbox.
pub(crate) fn started_as_trial() -> bool {
    std::env::args_os().next().is_some_and(|name| name == TRIAL_NAME)
}

/// Tries everything, or takes memory when told to.
pub(crate) fn trial_main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_default();
    if first == TAKE_MEMORY {
        return ExitCode::from(u8::from(take_memory().is_empty()));
    }
    let port = first.parse().unwrap_or(0);
    let attempts = attempts(port, &arguments.next().unwrap_or_default());
    let said = serde_json::to_vec(&attempts).map_err(io::Error::from).and_then(|text| io::stdout().write_all(&text));
    ExitCode::from(u8::from(said.is_err()))
}

fn attempts(port: u16, socket: &str) -> Vec<Attempt> {
    let loopback = SocketAddr::from(([127, 0, 0, 1], port));
    let file = format!("{LAYER}/{LAYER_FILE}");
    vec![
        attempt("write to a layer", open(&file)),
        attempt("make a layer writable", done(rustix::mount::mount_remount(LAYER, MountFlags::BIND, ""))),
        attempt("mount a file system", done(rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC))),
        attempt("make a user namespace", unshare()),
        attempt("keep a capability", privileges()),
        attempt("change a setting of the kernel", open("/proc/sys/kernel/core_pattern")),
        attempt("open a device of the host", devices()),
        attempt("read the host's password hashes", fs::read("/etc/shadow").map(|_| "read".to_owned())),
        attempt("see another process", processes()),
        attempt("let the host's core handler run", core_bound()),
        attempt("open a vsock", socket_of(VSOCK)),
        attempt("open a packet socket", socket_of(PACKET)),
        attempt("connect to the host's loopback", connect(loopback)),
        attempt("connect to an abstract socket of the host", abstract_socket(socket)),
        attempt("connect to another network", connect(SocketAddr::from(ELSEWHERE))),
        attempt("start more processes than it may", start_processes()),
    ]
}

/// What is not refused says what was reached.
fn attempt(name: &str, outcome: io::Result<String>) -> Attempt {
    let (refused, answer) = match outcome {
        Ok(reached) => (false, reached),
        Err(refusal) => (true, refusal.to_string()),
    };
    Attempt { name: name.to_owned(), refused, answer }
}

fn done<T>(outcome: rustix::io::Result<T>) -> io::Result<String> {
    outcome.map(|_| "done".to_owned()).map_err(io::Error::from)
}

fn refused(answer: impl Into<String>) -> io::Error {
    io::Error::other(answer.into())
}

/// Opens for writing and writes nothing.
fn open(path: &str) -> io::Result<String> {
    OpenOptions::new().write(true).open(path).map(|_| "opened".to_owned())
}

/// By the system's own program, since the call is not for one with threads.
fn unshare() -> io::Result<String> {
    let ended = Command::new("/usr/bin/unshare").args(["--user", "/bin/true"]).stderr(Stdio::null()).status()?;
    if ended.success() { Ok("made".to_owned()) } else { Err(refused("Operation not permitted")) }
}

fn privileges() -> io::Result<String> {
    let status = fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim_start_matches(':').trim().to_owned()).unwrap_or_default()
    };
    let none = |name: &str| u64::from_str_radix(&field(name), 16) == Ok(0);
    let holds = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].into_iter().find(|name| !none(name));
    match (holds, field("NoNewPrivs").as_str(), field("Seccomp").as_str()) {
        (None, "1", "2") => Err(refused("none is left, none can be gained, and a filter is loaded")),
        (holds, gains, filter) => Ok(format!("{holds:?}, NoNewPrivs {gains}, Seccomp {filter}")),
    }
}

/// With a bound of 0, which every program may set outside, the kernel would run what the host pipes cores to.
fn core_bound() -> io::Result<String> {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(Resource::Core, none)?;
    match rustix::process::getrlimit(Resource::Core).maximum {
        Some(1) => Err(refused("the bound on core files stays")),
        bound => Ok(format!("the bound on core files is {bound:?}")),
    }
}

fn devices() -> io::Result<String> {
    let mut last = refused("not tried");
    for path in ["/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/vsock", "/sys/kernel"] {
        match fs::File::open(path) {
            Ok(_) => return Ok(path.to_owned()),
            Err(refusal) => last = refusal,
        }
    }
    Err(last)
}

fn processes() -> io::Result<String> {
    let own = std::process::id();
    let others = fs::read_dir("/proc")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|&pid| pid != own)
        .count();
    if others == 0 { Err(refused("there are none")) } else { Ok(format!("{others} of them")) }
}

fn socket_of(family: u16) -> io::Result<String> {
    done(rustix::net::socket(AddressFamily::from_raw(family), SocketType::STREAM, None))
}

fn connect(address: SocketAddr) -> io::Result<String> {
    TcpStream::connect_timeout(&address, PATIENCE).map(|_| "connected".to_owned())
}

fn abstract_socket(name: &str) -> io::Result<String> {
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    UnixStream::connect_addr(&address).map(|_| "connected".to_owned())
}

/// Threads, which count as processes do; each waits until all are there.
fn start_processes() -> io::Result<String> {
    let (hold, held) = mpsc::channel::<()>();
    let held = std::sync::Arc::new(std::sync::Mutex::new(held));
    let mut started = Vec::new();
    let refusal = loop {
        let held = std::sync::Arc::clone(&held);
        let thread = thread::Builder::new().stack_size(64 << 10).spawn(move || {
            // Returns when the sender is gone.
            let _ = held.lock().map(|held| held.recv());
        });
        match thread {
            Ok(thread) => started.push(thread),
            Err(refusal) => break Some(refusal),
        }
        if started.len() as u64 > PROCESSES {
            break None;
        }
    };
    drop(hold);
    let count = started.len();
    for thread in started {
        // It has nothing to say.
        let _ = thread.join();
    }
    match refusal {
        Some(refusal) => Err(refusal),
        None => Ok(format!("{count} beside the first, of {PROCESSES}")),
    }
}

/// Twice what the sandbox has, every page of it touched.
fn take_memory() -> Vec<u8> {
    std::hint::black_box(vec![1; (2 * MEMORY_BYTES) as usize])
}
