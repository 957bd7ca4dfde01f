//! `CONNECT`.

use std::sync::{Arc, Mutex};

use stead_egress::Policy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::harness::{Proxy, read_all, read_until, refusal, upstream};

const ESTABLISHED: &str = "HTTP/1.1 200 Connection established\r\n\r\n";

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
