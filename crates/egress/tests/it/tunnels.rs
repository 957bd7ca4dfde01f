//! `CONNECT`.

use std::sync::{Arc, Mutex};

use stead_egress::Policy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::harness::{Proxy, read_all, read_until, refusal, upstream};

const ESTABLISHED: &str = "HTTP/1.1 200 Connection established\r\n\r\n";
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

fn connect(host: &str, port: u16) -> String {
    format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")
}

/// An upstream that waits for the end of what it is sent, and then repeats it.
async fn echo_at_end() -> (std::net::SocketAddr, Arc<Mutex<Vec<Vec<u8>>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let address = upstream(move |mut stream| {
        let record = Arc::clone(&record);
        async move {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            record.lock().unwrap().push(bytes);
        }
    })
    .await;
    (address, seen)
}

fn vector(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u16).to_be_bytes(), content].concat()
}

fn server_name(name: &str) -> Vec<u8> {
    let entry = [&[0], vector(name.as_bytes()).as_slice()].concat();
    [&[0, 0], vector(&vector(&entry)).as_slice()].concat()
}

fn client_hello(extensions: &[u8]) -> Vec<u8> {
    let mut body = [[3, 3].as_slice(), &[9; 32], &[0], &vector(&[0x13, 0x01]), &[1, 0]].concat();
    body.extend(vector(extensions));
    let message = [&[1, 0], vector(&body).as_slice()].concat();
    [&[22, 3, 1], vector(&message).as_slice()].concat()
}

async fn tunnel(proxy: &Proxy, host: &str, port: u16) -> UnixStream {
    let mut client = proxy.client().await;
    client.write_all(connect(host, port).as_bytes()).await.unwrap();
    assert_eq!(read_until(&mut client, "\r\n\r\n").await, ESTABLISHED);
    client
}

#[tokio::test]
async fn each_direction_ends_by_itself() {
    let (address, _) = echo_at_end().await;
    let proxy = Proxy::open(Policy::open("t"), &[address], |_| {});
    let mut client = proxy.client().await;
    // Bytes sent along with the request belong to the tunnel.
    client.write_all(format!("{}early ", connect("a.test", address.port())).as_bytes()).await.unwrap();
    assert_eq!(read_until(&mut client, "\r\n\r\n").await, ESTABLISHED);
    client.write_all(b"and late").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut client).await, "early and late");
    let stats = proxy.handle.close().await;
    assert_eq!((stats.connections, stats.active, stats.refused), (1, 0, 0));
    assert_eq!(stats.bytes_down, (ESTABLISHED.len() + "early and late".len()) as u64);
    assert_eq!(stats.bytes_up, (connect("a.test", address.port()).len() + "early and late".len()) as u64);
}

#[tokio::test]
async fn a_rebinding_name_reaches_only_what_was_judged() {
    let (address, seen) = echo_at_end().await;
    let proxy = Proxy::open(Policy::open("t"), &[address], |_| {});
    proxy.script.answer("rebind.test", &["127.0.0.1", "127.0.0.2"]);
    let mut client = tunnel(&proxy, "rebind.test", address.port()).await;
    client.shutdown().await.unwrap();
    read_all(&mut client).await;
    assert_eq!(proxy.script.questions().len(), 1, "one question for one connection");
    assert_eq!(refusal(&proxy.ask(&connect("rebind.test", address.port())).await), "address_denied");
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn under_exact_names_the_server_name_must_match() {
    let (address, seen) = echo_at_end().await;
    let proxy = Proxy::open(Policy::exact("t", ["ok.test".parse().unwrap()]), &[address], |_| {});
    let hello = [client_hello(&server_name("OK.test")), b"rest".to_vec()].concat();
    let mut client = tunnel(&proxy, "ok.test", address.port()).await;
    let (first, second) = hello.split_at(20);
    client.write_all(first).await.unwrap();
    tokio::task::yield_now().await;
    client.write_all(second).await.unwrap();
    client.shutdown().await.unwrap();
    let mut echoed = Vec::new();
    client.read_to_end(&mut echoed).await.unwrap();
    assert_eq!(echoed, hello, "the peeked bytes reach the server unchanged");

    let hidden = [server_name("ok.test"), vec![0xfe, 0x0d, 0, 1, 0]].concat();
    let refused = [
        client_hello(&server_name("other.test")),
        client_hello(&server_name("sub.ok.test")),
        client_hello(&[]),
        client_hello(&hidden),
        b"GET / HTTP/1.1\r\nHost: hidden.test\r\n\r\n".to_vec(),
        b"SSH-2.0-client\r\n".to_vec(),
    ];
    for bytes in &refused {
        let mut client = tunnel(&proxy, "ok.test", address.port()).await;
        client.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap_or_default();
        assert_eq!(answer, ALERT, "{:?}", String::from_utf8_lossy(bytes));
    }
    assert_eq!(proxy.handle.stats().refused, refused.len() as u64);
    // The upstreams of the refused tunnels were connected but sent nothing.
    assert!(seen.lock().unwrap().iter().skip(1).all(Vec::is_empty));
}

#[tokio::test]
async fn closing_cuts_tunnels_and_removes_the_socket() {
    let (address, _) = echo_at_end().await;
    let proxy = Proxy::open(Policy::open("t"), &[address], |_| {});
    let path = proxy.handle.path().to_owned();
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o666);
    let mut client = tunnel(&proxy, "a.test", address.port()).await;
    assert_eq!(proxy.handle.stats().active, 1);
    proxy.handle.close().await;
    assert_eq!(read_all(&mut client).await, "");
    assert!(!path.exists());
}
