//! The dialer against real sockets and a scripted name server.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get ends the test")]

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stead_outbound::{
    Deadlines, DenyReason, DialError, Dialer, Host, HostAddresses, HostName, Policy, PortRule, Resolver, Resolving,
};
use tokio::net::TcpListener;

/// Answers each question with the next line of the script; the last line repeats.
struct Script {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    questions: Mutex<Vec<String>>,
}

impl Script {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |line: &&[&str]| line.iter().map(|text| text.parse().unwrap()).collect();
        let answers = Mutex::new(answers.iter().map(parse).collect());
        Arc::new(Self { answers, questions: Mutex::default() })
    }

    fn questions(&self) -> usize {
        self.questions.lock().unwrap().len()
    }
}

impl Resolver for Script {
    fn resolve<'a>(&'a self, name: &'a HostName) -> Resolving<'a> {
        self.questions.lock().unwrap().push(name.to_string());
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Box::pin(async move { answer.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

struct Silent;

impl Resolver for Silent {
    fn resolve<'a>(&'a self, _: &'a HostName) -> Resolving<'a> {
        Box::pin(std::future::pending())
    }
}

fn dialer(resolver: Arc<dyn Resolver>, own: &[&str]) -> Dialer {
    let deadlines = Deadlines { resolve: Duration::from_millis(200), connect: Duration::from_millis(500) };
    Dialer::new(resolver, HostAddresses::fixed(own.iter().map(|text| text.parse().unwrap()).collect()), deadlines)
}

fn host(text: &str) -> Host {
    text.parse().unwrap()
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn reasons(error: DialError) -> Vec<DenyReason> {
    match error {
        DialError::AllDenied { denied, .. } => denied.into_iter().map(|denied| denied.reason).collect(),
        other => panic!("expected a denial, got {other:?}"),
    }
}

#[tokio::test]
async fn connects_to_the_judged_address_and_asks_once() {
    let (listener, address) = listener().await;
    let (other, other_address) = {
        let other = TcpListener::bind(("127.0.0.2", address.port())).await.unwrap();
        let address = other.local_addr().unwrap();
        (other, address)
    };
    // The name server answers with the allowed address first and with a forbidden one ever after.
    let script = Script::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let dialer = dialer(script.clone(), &[]);
    let policy = Policy { extra_allowed: vec![address], ..Policy::open() };
    let stream = dialer.connect(&host("rebind.test"), address.port(), &policy).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), address);
    assert_eq!(script.questions(), 1);
    assert!(listener.accept().await.is_ok());
    // The second connection is judged by the second answer, although a listener waits there.
    let error = dialer.connect(&host("rebind.test"), address.port(), &policy).await.unwrap_err();
    assert_eq!(reasons(error), [DenyReason::Loopback]);
    assert!(
        tokio::time::timeout(Duration::from_millis(50), other.accept()).await.is_err(),
        "{other_address} was dialled"
    );
}

#[tokio::test]
async fn every_address_is_judged_and_denied_ones_are_dropped() {
    let script = Script::new(&[&["10.0.0.1", "8.8.8.8", "::ffff:169.254.169.254", "2606:4700::1", "::1"]]);
    let judged = dialer(script.clone(), &[]).judge(&host("mixed.test"), 443, &Policy::open()).await.unwrap();
    assert_eq!(judged, ["8.8.8.8:443".parse().unwrap(), "[2606:4700::1]:443".parse().unwrap()]);
    // The machine's own public addresses are denied, in IPv6 clothes as well.
    let script = Script::new(&[&["8.8.8.8", "2002:808:808::1", "64:ff9b::8.8.8.8", "2606:4700::1"]]);
    let own = dialer(script, &["8.8.8.8", "2606:4700::1"]);
    let error = own.judge(&host("self.test"), 443, &Policy::open()).await.unwrap_err();
    assert!(!error.to_string().contains("8.8.8.8"), "{error}");
    assert_eq!(reasons(error), [DenyReason::Own; 4]);
    // Literals take the same way.
    for literal in ["127.0.0.1", "[::1]", "[::ffff:10.0.0.1]", "169.254.169.254", "8.8.8.8"] {
        let error = own.connect(&host(literal), 80, &Policy::open()).await.unwrap_err();
        assert_eq!(reasons(error).len(), 1, "{literal}");
    }
}

#[tokio::test]
async fn an_exemption_is_for_its_name_and_never_for_metadata() {
    let script = Script::new(&[&["10.1.2.3", "169.254.169.254", "0.0.0.0", "224.0.0.1", "192.0.2.7"]]);
    let dialer = dialer(script, &[]);
    let policy = Policy { exempt_hosts: BTreeSet::from([host("registry.test"), host("10.9.9.9")]), ..Policy::open() };
    let judged = dialer.judge(&host("Registry.test."), 443, &policy).await.unwrap();
    assert_eq!(judged, ["10.1.2.3:443".parse().unwrap(), "192.0.2.7:443".parse().unwrap()]);
    assert_eq!(reasons(dialer.judge(&host("other.test"), 443, &policy).await.unwrap_err()).len(), 5);
    assert!(dialer.judge(&host("10.9.9.9"), 443, &policy).await.is_ok());
    assert!(dialer.judge(&host("10.9.9.8"), 443, &policy).await.is_err());
}

#[tokio::test]
async fn a_refused_name_or_port_asks_no_name_server() {
    let script = Script::new(&[&["8.8.8.8"]]);
    let dialer = dialer(script.clone(), &[]);
    let mut policy = Policy { ports: PortRule::from_iter([443]), ..Policy::open() };
    let error = dialer.connect(&host("a.test"), 25, &policy).await.unwrap_err();
    assert!(matches!(error, DialError::PortNotAllowed { port: 25, .. }));
    policy.names = stead_outbound::NameRule::Exact(BTreeSet::new());
    let error = dialer.connect(&host("secret-in-a-name.test"), 443, &policy).await.unwrap_err();
    assert!(matches!(error, DialError::NameNotAllowed { .. }));
    assert_eq!(script.questions(), 0);
}

#[tokio::test]
async fn failures_are_typed_and_timely() {
    let started = Instant::now();
    let error = dialer(Arc::new(Silent), &[]).connect(&host("slow.test"), 80, &Policy::open()).await.unwrap_err();
    assert!(
        matches!(&error, DialError::Resolve { source, .. } if source.kind() == io::ErrorKind::TimedOut),
        "{error:?}"
    );
    let error = dialer(Script::new(&[&[]]), &[]).connect(&host("empty.test"), 80, &Policy::open()).await.unwrap_err();
    assert!(matches!(error, DialError::Resolve { .. }));
    // Nobody listens on the first address; the second answers.
    let (_listener, address) = listener().await;
    let dead = SocketAddr::new("127.0.0.9".parse().unwrap(), address.port());
    let both = dialer(Script::new(&[&["127.0.0.9", "127.0.0.1"]]), &[]);
    let policy = Policy { extra_allowed: vec![dead, address], ..Policy::open() };
    let stream = both.connect(&host("two.test"), address.port(), &policy).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), address);
    let policy = Policy { extra_allowed: vec![dead], ..Policy::open() };
    let error = both.connect(&host("two.test"), address.port(), &policy).await.unwrap_err();
    assert!(
        matches!(&error, DialError::Connect { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused),
        "{error:?}"
    );
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn the_system_dialer_denies_this_machine() {
    let error = Dialer::system(Vec::new()).connect(&host("localhost"), 80, &Policy::open()).await.unwrap_err();
    assert!(reasons(error).iter().all(|reason| *reason == DenyReason::Loopback));
}
