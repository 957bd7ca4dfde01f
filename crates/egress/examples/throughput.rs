//! Bytes per second from a server to a client over loopback: directly, and through the proxy in a process of its own. Used by
//! `scripts/bench`.
//!
//! ```text
//! throughput [--quick]
//! ```
//!
//! Prints a JSON object with an array of samples for each way, which take turns so that a busy moment hits all of them:
//! `direct`; `proxied`, a tunnel under exact names, opened by a ClientHello; `open`, a tunnel under an open policy; `socks`, the
//! same asked for by SOCKS 5; `plain`, the body of a plain HTTP response.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use stead_egress::process::{Remote, RemoteHandle, serve};
use stead_egress::{HostName, Policy, PortRule};
use stead_outbound::{Deadlines, Dialer, HostAddresses, Resolver, Resolving};

/// The argument that makes this program the proxy process.
const AS_PROXY: &str = "--as-proxy";
const BLOCK: usize = 128 * 1024;
const HOST: &str = "bench.test";

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Every name is this machine.
struct Loopback;

impl Resolver for Loopback {
    fn resolve<'a>(&'a self, _: &'a HostName) -> Resolving<'a> {
        Box::pin(async { Ok(vec![Ipv4Addr::LOCALHOST.into()]) })
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [AS_PROXY] => {
            let dialer = Dialer::new(Arc::new(Loopback), HostAddresses::fixed(Vec::new()), Deadlines::default());
            Ok(serve(std::io::stdin().as_fd().try_clone_to_owned()?, Arc::new(dialer))?)
        }
        [] => measure(1 << 30, 5),
        ["--quick"] => measure(1 << 28, 3),
        _ => Err("usage: throughput [--quick]".into()),
    }
}

fn measure(total: usize, samples: usize) -> Outcome<()> {
    let upstream = upstream(total)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let directory = tempfile::tempdir()?;
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let mut process = Command::new(std::env::current_exe()?)
        .arg(AS_PROXY)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()?;
    let remote = runtime.block_on(async { Remote::new(ours) })?;
    let at = |name: &str| directory.path().join(name);
    let opened = |path: &Path, policy: Policy| -> Outcome<RemoteHandle> {
        let listener = OwnedFd::from(UnixListener::bind(path)?);
        let policy = Policy { ports: PortRule::Any, extra_allowed: vec![upstream], ..policy };
        Ok(runtime.block_on(remote.open(listener, policy))?)
    };
    let handles =
        [opened(&at("exact"), Policy::exact("bench", [HOST.parse()?]))?, opened(&at("open"), Policy::open("bench"))?];
    let ways: [(&str, Way); 5] = [
        ("direct", Way::Direct),
        ("proxied", Way::Tunnel { socket: at("exact"), request: connect(upstream), hello: client_hello() }),
        ("open", Way::Tunnel { socket: at("open"), request: connect(upstream), hello: b"x".to_vec() }),
        ("socks", Way::Tunnel { socket: at("open"), request: socks(upstream), hello: b"x".to_vec() }),
        ("plain", Way::Plain { socket: at("open") }),
    ];
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
    // The first round warms up and does not count.
    for round in 0..=samples {
        for ((_, way), rates) in ways.iter().zip(&mut found) {
            let rate = way.rate(upstream, total)?;
            if round > 0 {
                rates.push(rate.round());
            }
        }
    }
    drop(handles);
    drop(remote);
    process.wait()?;
    let names = ways.iter().map(|(name, _)| (*name).to_owned());
    let object: serde_json::Map<String, serde_json::Value> = names.zip(found.into_iter().map(Into::into)).collect();
    writeln!(std::io::stdout(), "{}", serde_json::Value::Object(object))?;
    Ok(())
}

/// How the bytes come.
enum Way {
    Direct,
    Tunnel { socket: PathBuf, request: Vec<u8>, hello: Vec<u8> },
    Plain { socket: PathBuf },
}

impl Way {
    fn rate(&self, upstream: SocketAddr, total: usize) -> Outcome<f64> {
        match self {
            Self::Direct => {
                let mut stream = TcpStream::connect(upstream)?;
                stream.write_all(b"x")?;
                drain(stream, total)
            }
            Self::Tunnel { socket, request, hello } => {
                let mut stream = UnixStream::connect(socket)?;
                stream.write_all(request)?;
                // Both answers, `HTTP/1.1 200 ...` and the two of SOCKS, are known to the byte.
                let mut answer = vec![0; if request[0] == 5 { 12 } else { 39 }];
                stream.read_exact(&mut answer)?;
                stream.write_all(hello)?;
                drain(stream, total)
            }
            Self::Plain { socket } => {
                let mut stream = UnixStream::connect(socket)?;
                let host = format!("{HOST}:{}", upstream.port());
                stream.write_all(format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
                let mut byte = [0];
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    stream.read_exact(&mut byte)?;
                    head.push(byte[0]);
                }
                drain(stream, total)
            }
        }
    }
}

fn drain(mut stream: impl Read, total: usize) -> Outcome<f64> {
    let mut buffer = vec![0; BLOCK];
    let (mut read, started) = (0, Instant::now());
    while read < total {
        match stream.read(&mut buffer)? {
            0 => return Err(format!("the stream ended after {read} bytes").into()),
            count => read += count,
        }
    }
    Ok(total as f64 / started.elapsed().as_secs_f64())
}

/// A server that sends `total` bytes to everyone who says something, with a head for those who say `GET`.
fn upstream(total: usize) -> Outcome<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || send(&mut stream, total));
        }
    });
    Ok(address)
}

fn send(stream: &mut TcpStream, total: usize) -> std::io::Result<()> {
    let mut said = [0; 1024];
    let length = stream.read(&mut said)?;
    if said[..length].starts_with(b"GET") {
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {total}\r\n\r\n").as_bytes())?;
    }
    let block = vec![7; BLOCK];
    for _ in 0..total / BLOCK {
        stream.write_all(&block)?;
    }
    Ok(())
}

fn connect(upstream: SocketAddr) -> Vec<u8> {
    format!("CONNECT {HOST}:{} HTTP/1.1\r\n\r\n", upstream.port()).into_bytes()
}

fn socks(upstream: SocketAddr) -> Vec<u8> {
    let name = [&[HOST.len() as u8], HOST.as_bytes()].concat();
    [&[5, 1, 0, 5, 1, 0, 3], name.as_slice(), &upstream.port().to_be_bytes()].concat()
}

/// The least that is a ClientHello for [`HOST`].
fn client_hello() -> Vec<u8> {
    let vector = |content: &[u8]| [&(content.len() as u16).to_be_bytes(), content].concat();
    let entry = [&[0], vector(HOST.as_bytes()).as_slice()].concat();
    let extension = [&[0, 0], vector(&vector(&entry)).as_slice()].concat();
    let mut body = [[3, 3].as_slice(), &[9; 32], &[0], &vector(&[0x13, 0x01]), &[1, 0]].concat();
    body.extend(vector(&extension));
    let message = [&[1, 0], vector(&body).as_slice()].concat();
    [&[22, 3, 1], vector(&message).as_slice()].concat()
}
