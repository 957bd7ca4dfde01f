//! The proxy in a process of its own.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use stead_egress::process::{Remote, RemoteError};
use stead_egress::{HostName, Policy, PortRule};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::harness::{Log, Script, answering, dialer, read_all, read_until, refusal, upstream};

const AS_PROXY: &str = "STEAD_TEST_AS_EGRESS";
/// How many descriptors the process may have.
pub(crate) const DESCRIPTORS: &str = "STEAD_TEST_EGRESS_DESCRIPTORS";
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// Not a test by itself: the other tests start this program again, with the control socket as its standard input, to have a
/// proxy process.
#[test]
fn the_proxy_process() {
    if std::env::var_os(AS_PROXY).is_none() {
        return;
    }
    if let Some(count) = std::env::var_os(DESCRIPTORS) {
        let current = Some(count.to_str().unwrap().parse().unwrap());
        setrlimit(Resource::Nofile, Rlimit { current, ..getrlimit(Resource::Nofile) }).unwrap();
    }
    let control = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    stead_egress::process::serve(control, Arc::new(dialer(Arc::new(Script::default())))).unwrap();
}

fn pair() -> (OwnedFd, OwnedFd) {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

pub(crate) struct Process {
    child: Child,
    pub(crate) remote: Remote,
    /// Our end of the control socket, to break its rules with.
    control: OwnedFd,
}

impl Process {
    fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(environment: &[(&str, &str)]) -> Self {
        let (ours, theirs) = pair();
        let child = Command::new(std::env::current_exe().unwrap())
            .envs(environment.iter().copied())
            .args(["--exact", "process::the_proxy_process", "--nocapture"])
            .env(AS_PROXY, "1")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let control = ours.try_clone().unwrap();
        Self { child, remote: Remote::new(ours).unwrap(), control }
    }

    async fn exit_code(&mut self) -> Option<i32> {
        for _ in 0..500 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the proxy process goes on");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A sandbox's socket as the service makes it.
pub(crate) struct Socket {
    listener: UnixListener,
    directory: tempfile::TempDir,
}

impl Socket {
    pub(crate) fn bind() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { listener: UnixListener::bind(directory.path().join("egress.sock")).unwrap(), directory }
    }

    pub(crate) fn copy(&self) -> OwnedFd {
        self.listener.try_clone().unwrap().into()
    }

    pub(crate) async fn client(&self) -> UnixStream {
        UnixStream::connect(self.directory.path().join("egress.sock")).await.unwrap()
    }
}

pub(crate) fn policy(upstream: SocketAddr) -> Policy {
    Policy { ports: PortRule::Any, extra_allowed: vec![upstream], ..Policy::open("env_1") }
}

pub(crate) fn get(address: SocketAddr) -> String {
    format!("GET http://a.test:{0}/secret-path HTTP/1.1\r\nHost: a.test:{0}\r\nCookie: secret\r\n\r\n", address.port())
}

#[tokio::test]
async fn it_serves_counts_and_reports_to_the_services_log() {
    let (address, _) = answering("\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    let (process, socket) = (Process::start(), Socket::bind());
    let log = Log::default();
    let _guard = log.keep();
    let handle = process.remote.open(socket.copy(), policy(address)).await.unwrap();
    let mut client = socket.client().await;
    client.write_all(get(address).as_bytes()).await.unwrap();
    read_until(&mut client, "hi").await;
    let mut refused = socket.client().await;
    refused.write_all(b"GET http://10.0.0.1/ HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n").await.unwrap();
    assert_eq!(refusal(&read_all(&mut refused).await), "address_denied");
    log.wait_for(&format!("label=\"env_1\" host=\"a.test\" port={} decision=\"forwarded\" sent=", address.port()), 1)
        .await;
    log.wait_for("host=\"10.0.0.1\" port=80 decision=\"address_denied\"", 1).await;
    assert!(!log.text().contains("secret"), "{}", log.text());
    let stats = handle.stats().await.unwrap();
    assert_eq!((stats.connections, stats.refused), (2, 1));
    assert!(stats.bytes_up > 0 && stats.bytes_down > 0);

    // A tunnel is cut by the close, and the numbers outlive it.
    let quiet = upstream(|stream| async move {
        tokio::time::sleep(Duration::from_mins(1)).await;
        drop(stream);
    })
    .await;
    let other = Socket::bind();
    let second = process.remote.open(other.copy(), policy(quiet)).await.unwrap();
    let mut tunnel = other.client().await;
    tunnel.write_all(format!("CONNECT a.test:{} HTTP/1.1\r\n\r\n", quiet.port()).as_bytes()).await.unwrap();
    read_until(&mut tunnel, "\r\n\r\n").await;
    assert_eq!(second.stats().await.unwrap().active, 1);
    let stats = second.close().await;
    assert_eq!((stats.connections, stats.active), (1, 0));
    assert_eq!(read_all(&mut tunnel).await, "");
    // Dropping closes as well, in the background; the other socket was not touched by any of it.
    drop(handle);
    assert_eq!(read_all(&mut client).await, "");
    assert!(!process.remote.is_closed());
}

#[tokio::test]
async fn the_largest_policy_fits() {
    let names = (0..256).map(|number| {
        let label = format!("{}{number:03}", "a".repeat(58));
        let name = [label.as_str(); 4].join(".") + ".test.";
        name[..name.len() - 1].parse::<HostName>().unwrap()
    });
    let names: Vec<_> = names.collect();
    assert!(names.iter().all(|name| name.as_str().len() >= 252));
    let (process, socket) = (Process::start(), Socket::bind());
    let handle = process.remote.open(socket.copy(), Policy::exact("env_1", names)).await.unwrap();
    let mut client = socket.client().await;
    client.write_all(b"CONNECT other.test:443 HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(refusal(&read_all(&mut client).await), "name_not_allowed");
    handle.close().await;
    let long = Policy::exact("x".repeat(2 << 20), []);
    assert!(matches!(process.remote.open(socket.copy(), long).await, Err(RemoteError::Policy(_))));
}

#[tokio::test]
async fn after_a_crash_the_same_socket_is_served_by_the_next_process() {
    let (address, _) = answering("\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    let (mut process, socket) = (Process::start(), Socket::bind());
    let handle = process.remote.open(socket.copy(), policy(address)).await.unwrap();
    let mut client = socket.client().await;
    client.write_all(get(address).as_bytes()).await.unwrap();
    read_until(&mut client, "hi").await;
    process.child.kill().unwrap();
    timeout(SOON, process.remote.closed()).await.unwrap();
    assert_eq!(read_all(&mut client).await, "", "a client of the dead process does not wait");
    assert!(matches!(handle.stats().await, Err(RemoteError::Gone)));
    assert!(matches!(process.remote.open(socket.copy(), policy(address)).await, Err(RemoteError::Gone)));
    // Who comes between two processes is served by the second.
    let mut waiting = socket.client().await;
    waiting.write_all(get(address).as_bytes()).await.unwrap();
    let next = Process::start();
    let reopened = next.remote.open(socket.copy(), policy(address)).await.unwrap();
    read_until(&mut waiting, "hi").await;
    assert_eq!(handle.close().await.connections, 0, "nothing was heard of the first process before it died");
    assert_eq!(reopened.close().await.connections, 1);
}

#[tokio::test]
async fn without_its_service_the_process_ends_at_once() {
    let address = upstream(|stream| async move {
        tokio::time::sleep(Duration::from_mins(1)).await;
        drop(stream);
    })
    .await;
    let (mut process, socket) = (Process::start(), Socket::bind());
    let _handle = process.remote.open(socket.copy(), policy(address)).await.unwrap();
    let mut client = socket.client().await;
    client.write_all(format!("CONNECT a.test:{} HTTP/1.1\r\n\r\n", address.port()).as_bytes()).await.unwrap();
    read_until(&mut client, "\r\n\r\n").await;
    let (unused, _) = pair();
    drop(std::mem::replace(&mut process.remote, Remote::new(unused).unwrap()));
    assert_eq!(process.exit_code().await, Some(0));
    assert_eq!(read_all(&mut client).await, "");
}

#[tokio::test]
async fn a_broken_order_ends_the_process_and_the_log_says_why() {
    let long = format!(r#"{{"number":1,"socket":1,"what":"stats"{}}}"#, " ".repeat(20_000));
    for (packet, reason) in [
        (r#"{"number":1}"#, "cannot be understood"),
        (r#"{"number":1,"socket":1,"what":"stats","more":1}"#, "cannot be understood"),
        (r#"{"number":1,"socket":1,"what":"open"}"#, "wrong descriptors"),
        (long.as_str(), "too long"),
    ] {
        let mut process = Process::start();
        let log = Log::default();
        let _guard = log.keep();
        let mut none = SendAncillaryBuffer::default();
        rustix::net::sendmsg(&process.control, &[IoSlice::new(packet.as_bytes())], &mut none, SendFlags::NOSIGNAL)
            .unwrap();
        timeout(SOON, process.remote.closed()).await.unwrap();
        assert_ne!(process.exit_code().await, Some(0), "{packet}");
        assert!(log.text().contains("proxy_ends") && log.text().contains(reason), "{packet}: {}", log.text());
    }
}

#[tokio::test]
async fn a_proxy_that_breaks_the_rules_is_let_go() {
    let long = format!(r#"{{"note":{{"label":"{}"}}}}"#, "x".repeat(300));
    for packet in ["{}", r#"{"answer":{"number":99,"outcome":{"refused":"x"}}}"#, long.as_str()] {
        let (ours, theirs) = pair();
        let remote = Remote::new(ours).unwrap();
        rustix::io::write(&theirs, packet.as_bytes()).unwrap();
        timeout(SOON, remote.closed()).await.unwrap();
        assert_eq!(rustix::io::read(&theirs, &mut [0; 1]).unwrap(), 0, "{packet}: its end is closed");
    }
}

#[tokio::test]
async fn only_a_listening_unix_socket_is_opened() {
    let (process, socket) = (Process::start(), Socket::bind());
    let (datagrams, _) = pair();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for wrong in [datagrams, tcp.into(), OwnedFd::from(tempfile::tempfile().unwrap())] {
        let refused = process.remote.open(wrong, Policy::open("t")).await;
        assert!(matches!(refused, Err(RemoteError::Refused { .. })), "{refused:?}");
    }
    process.remote.open(socket.copy(), Policy::open("t")).await.unwrap().close().await;
}

#[tokio::test]
async fn without_descriptors_a_socket_is_refused_and_the_rest_goes_on() {
    let (process, first, second) = (Process::start(), Socket::bind(), Socket::bind());
    let handle = process.remote.open(first.copy(), Policy::open("t")).await.unwrap();
    let pid = Pid::from_child(&process.child);
    let few = Rlimit { current: Some(4), maximum: getrlimit(Resource::Nofile).maximum };
    let before = prlimit(Some(pid), Resource::Nofile, few).unwrap();
    let refused = process.remote.open(second.copy(), Policy::open("t")).await;
    assert!(matches!(&refused, Err(RemoteError::Refused { reason }) if reason.contains("descriptors")), "{refused:?}");
    handle.stats().await.unwrap();
    prlimit(Some(pid), Resource::Nofile, before).unwrap();
    process.remote.open(second.copy(), Policy::open("t")).await.unwrap().close().await;
    handle.close().await;
}

#[tokio::test]
async fn a_process_that_says_nothing_is_not_waited_for() {
    let (ours, theirs) = pair();
    let (remote, socket) = (Remote::new(ours).unwrap(), Socket::bind());
    let started = std::time::Instant::now();
    assert!(matches!(remote.open(socket.copy(), Policy::open("t")).await, Err(RemoteError::Silent)));
    assert!(started.elapsed() < Duration::from_secs(9));
    // Given up, it is closed as well: the two orders are there to be read.
    let read = || {
        let mut order = [0; 1024];
        let length = rustix::io::read(&theirs, &mut order).unwrap();
        String::from_utf8_lossy(&order[..length]).into_owned()
    };
    let (first, second) = (read(), read());
    assert!(first.contains(r#""what":"open""#) && second.contains(r#""what":"close""#), "{first} {second}");
    drop(theirs);
    timeout(SOON, remote.closed()).await.unwrap();
}
