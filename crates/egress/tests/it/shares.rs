//! What one group of sandboxes may take from the others: nothing that they need.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use stead_egress::process::RemoteHandle;
use stead_egress::{Egress, HostName, Policy};
use stead_outbound::{CONCURRENT_QUESTIONS, Deadlines, Dialer, HostAddresses, Resolver, Resolving, Turn};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::harness::{Script, answering, read_all, read_until, refusal};
use crate::process::{DESCRIPTORS, Process, SOON, Socket, get, policy};

/// A resolver with as many threads as the system's, which are as little interrupted by a deadline.
struct Threads(Arc<Script>, Arc<Semaphore>);

impl Resolver for Threads {
    fn resolve<'a>(&'a self, name: &'a HostName) -> Resolving<'a> {
        self.resolve_in_turn(name, Box::new(()))
    }

    fn resolve_in_turn<'a>(&'a self, name: &'a HostName, turn: Turn) -> Resolving<'a> {
        let (script, threads, name) = (Arc::clone(&self.0), Arc::clone(&self.1), name.clone());
        let thread = tokio::spawn(async move {
            let _thread = threads.acquire().await.unwrap();
            let answer = script.resolve(&name).await;
            drop(turn);
            answer
        });
        Box::pin(async move { thread.await.unwrap() })
    }
}

/// Sockets of one group.
async fn open_group(process: &Process, upstream: SocketAddr, group: &str, count: usize) -> Vec<(Socket, RemoteHandle)> {
    let mut sockets = Vec::new();
    for _ in 0..count {
        let socket = Socket::bind();
        let policy = Policy { group: group.to_owned(), ..policy(upstream) };
        let handle = process.remote.open(socket.copy(), policy).await.unwrap();
        sockets.push((socket, handle));
    }
    sockets
}

/// Opens one more socket of the group and has a request answered through it; both must be quick.
async fn expect_service(process: &Process, upstream: SocketAddr, group: &str) {
    let served = async {
        let sockets = open_group(process, upstream, group, 1).await;
        let mut client = sockets[0].0.client().await;
        client.write_all(get(upstream).as_bytes()).await.unwrap();
        read_until(&mut client, "hi").await;
    };
    timeout(Duration::from_secs(2), served).await.unwrap_or_else(|_| panic!("{group} is not served"));
}

#[tokio::test]
async fn a_group_that_floods_leaves_the_others_their_connections() {
    let (address, _) = answering("\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    let process = Process::start_with(&[(DESCRIPTORS, "900")]);
    let mut held = Vec::new();
    for group in ["greedy", "second"] {
        let sockets = open_group(&process, address, group, 4).await;
        let mut clients = Vec::new();
        for number in 0..300 {
            let mut client = sockets[number % 4].0.client().await;
            // Some say nothing and some are in the middle of a request.
            if number % 2 == 0 {
                // It may have been turned away already.
                let _ = client.write_all(b"GET ").await;
            }
            clients.push(client);
        }
        let mut last = sockets[0].0.client().await;
        assert_eq!(refusal(&read_all(&mut last).await), "too_many_connections");
        let (mut active, mut accepted, mut refused) = (0, 0, 0);
        for (_, handle) in &sockets {
            let stats = handle.stats().await.unwrap();
            (active, accepted, refused) =
                (active + stats.active, accepted + stats.connections, refused + stats.refused);
        }
        // 900 descriptors, 225 of them kept back, a quarter of the rest, six for each connection.
        assert!((10..=28).contains(&active) && active + refused == accepted, "{group}: {active} {accepted} {refused}");
        held.push((sockets, clients));
    }
    expect_service(&process, address, "other").await;
    // What the group gives back it may have again.
    let (sockets, clients) = held.remove(0);
    drop(clients);
    let served = async {
        loop {
            let mut client = sockets[1].0.client().await;
            // As above.
            let _ = client.write_all(get(address).as_bytes()).await;
            let mut answer = [0; 1024];
            let length = client.read(&mut answer).await.unwrap_or_default();
            if answer[..length].starts_with(b"HTTP/1.1 200 ") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, served).await.unwrap();
}

#[tokio::test]
async fn a_group_whose_names_never_answer_leaves_the_others_the_resolver() {
    let (address, _) = answering("\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    let script = Arc::new(Script::default());
    script.never("x.never.test");
    let deadlines = Deadlines { resolve: Duration::from_millis(300), connect: Duration::from_secs(1) };
    let resolver = Threads(Arc::clone(&script), Arc::new(Semaphore::new(CONCURRENT_QUESTIONS)));
    let dialer = Dialer::new(Arc::new(resolver), HostAddresses::fixed(Vec::new()), deadlines);
    let egress = Egress::new(Arc::new(dialer));
    let directory = tempfile::tempdir().unwrap();
    let open = |name: String, group: &str| {
        let policy = Policy { group: group.to_owned(), ..policy(address) };
        egress.open(directory.path().join(name), policy).unwrap()
    };
    let (mut handles, mut clients) = (Vec::new(), Vec::new());
    for number in 0..15 {
        let handle = open(number.to_string(), "greedy");
        for _ in 0..12 {
            let mut client = UnixStream::connect(handle.path()).await.unwrap();
            client.write_all(b"CONNECT x.never.test:443 HTTP/1.1\r\n\r\n").await.unwrap();
            clients.push(client);
        }
        handles.push(handle);
    }
    while script.questions().len() < 32 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The dialer gives up on those names; the threads do not.
    tokio::time::sleep(2 * deadlines.resolve).await;
    let other = open("other".into(), "other");
    let answered = async {
        let mut client = UnixStream::connect(other.path()).await.unwrap();
        client.write_all(get(address).as_bytes()).await.unwrap();
        read_until(&mut client, "hi").await;
    };
    timeout(Duration::from_secs(2), answered).await.unwrap();
    assert_eq!(script.questions().len(), 33, "a quarter of the resolver's threads, and the other's one");
    // Those that have no turn in ten seconds are told so.
    let mut last = clients.pop().unwrap();
    timeout(Duration::from_secs(15), last.readable()).await.unwrap().unwrap();
    assert_eq!(refusal(&read_all(&mut last).await), "too_many_connections");
    assert!(handles[14].stats().refused >= 1);
}
