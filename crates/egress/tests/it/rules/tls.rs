//! Under `restricted` a tunnel opens with a TLS ClientHello that names its host in clear.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stead_egress::Policy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::{connect, restricted};
use crate::harness::{Proxy, read_until, upstream};
use crate::hello::{client_hello, extension, message, records, server_name, server_names};

/// TLS alert, fatal, `unrecognized_name`.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// An upstream that repeats what it is sent, once that has ended.
async fn echo() -> (SocketAddr, Arc<Mutex<Vec<Vec<u8>>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let address = upstream(move |mut stream| {
        let record = Arc::clone(&record);
        async move {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await.unwrap();
            record.lock().unwrap().push(bytes.clone());
            // A refused tunnel does not wait for the answer.
            let _ = stream.write_all(&bytes).await;
        }
    })
    .await;
    (address, seen)
}

async fn tunnel(proxy: &Proxy, port: u16) -> UnixStream {
    let mut client = proxy.client().await;
    client.write_all(connect("ok.test", port).as_bytes()).await.unwrap();
    read_until(&mut client, "\r\n\r\n").await;
    client
}

async fn all(client: &mut UnixStream) -> Vec<u8> {
    let mut answer = Vec::new();
    // A reset after the answer is an end like another.
    let _ = tokio::time::timeout(Duration::from_secs(5), client.read_to_end(&mut answer)).await.expect("an end");
    answer
}

/// What a tunnel to `ok.test` answers to these first bytes: themselves, or an alert.
async fn first_bytes(proxy: &Proxy, port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut client = tunnel(proxy, port).await;
    client.write_all(bytes).await.unwrap();
    client.shutdown().await.unwrap();
    all(&mut client).await
}

#[tokio::test]
async fn the_server_name_must_be_the_host_of_the_tunnel() {
    let (address, seen) = echo().await;
    let proxy = restricted(&[address]);
    for name in ["ok.test", "OK.Test"] {
        let bytes = [client_hello(&server_name(name)), b"and more".to_vec()].concat();
        assert_eq!(first_bytes(&proxy, address.port(), &bytes).await, bytes, "{name} passes unchanged");
    }
    for name in
        ["other.test", "sub.ok.test", "ok.test.other.test", "ok.test.", "k.test", "127.0.0.1", "[::1]", "ok.test\0", ""]
    {
        assert_eq!(first_bytes(&proxy, address.port(), &client_hello(&server_name(name))).await, ALERT, "{name:?}");
    }
    assert!(seen.lock().unwrap().iter().skip(2).all(Vec::is_empty), "nothing of a refused tunnel reaches the host");
    assert_eq!(proxy.handle.stats().refused, 9);
}

#[tokio::test]
async fn a_missing_server_name_is_refused() {
    let (address, seen) = echo().await;
    let proxy = restricted(&[address]);
    let ssl_2 = [0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10, 1, 0, 0x80].to_vec();
    for bytes in [
        client_hello(&[]),
        client_hello(&extension(10, &[0, 2, 0, 29])),
        client_hello(&extension(0, &[])),
        client_hello(&server_names(&[])),
        ssl_2,
        records(&message([3, 0], &server_name("ok.test")), 16384),
        records(&message([2, 0], &server_name("ok.test")), 16384),
        // A record that is no handshake, a handshake that is no ClientHello, and what is no TLS at all.
        [[23, 3, 3].as_slice(), &client_hello(&server_name("ok.test"))[3..]].concat(),
        records(&[2, 0, 0, 1, 0], 100),
        b"GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n".to_vec(),
        b"SSH-2.0-client\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
    ] {
        assert_eq!(first_bytes(&proxy, address.port(), &bytes).await, ALERT, "{:?}", String::from_utf8_lossy(&bytes));
    }
    assert!(seen.lock().unwrap().iter().all(Vec::is_empty));
}

#[tokio::test]
async fn an_encrypted_server_name_is_refused() {
    let (address, _) = echo().await;
    let proxy = restricted(&[address]);
    // Outer and inner ClientHello, a client that only pretends, and the draft before; with the right name in clear each time.
    for hidden in
        [extension(0xfe0d, &[0; 60]), extension(0xfe0d, &[1]), extension(0xfe0d, &[]), extension(0xffce, &[0; 20])]
    {
        for extensions in [[server_name("ok.test"), hidden.clone()].concat(), [hidden, server_name("ok.test")].concat()]
        {
            assert_eq!(first_bytes(&proxy, address.port(), &client_hello(&extensions)).await, ALERT);
        }
    }
    assert_eq!(proxy.handle.stats().refused, 8);
}

#[tokio::test]
async fn two_server_names_are_refused_and_unknown_extensions_are_not() {
    let (address, _) = echo().await;
    let proxy = restricted(&[address]);
    for extensions in [
        server_names(&["ok.test", "other.test"]),
        server_names(&["ok.test", "ok.test"]),
        [server_name("ok.test"), server_name("other.test")].concat(),
        [server_name("other.test"), server_name("ok.test")].concat(),
    ] {
        assert_eq!(first_bytes(&proxy, address.port(), &client_hello(&extensions)).await, ALERT);
    }
    // GREASE (RFC 8701) and whatever comes after us.
    let grease =
        [extension(0x0a0a, &[]), server_name("ok.test"), extension(0xfafa, &[0]), extension(0x7777, &[7; 300])]
            .concat();
    let bytes = client_hello(&grease);
    assert_eq!(first_bytes(&proxy, address.port(), &bytes).await, bytes);
}

#[tokio::test]
async fn a_hello_in_pieces_is_put_together() {
    let (address, _) = echo().await;
    let proxy = restricted(&[address]);
    let (good, bad) = (message([3, 3], &server_name("ok.test")), message([3, 3], &server_name("other.test")));
    // Many records, in one write.
    for size in [1, 7, 40] {
        let bytes = records(&good, size);
        assert_eq!(first_bytes(&proxy, address.port(), &bytes).await, bytes, "records of {size}");
        assert_eq!(first_bytes(&proxy, address.port(), &records(&bad, size)).await, ALERT, "records of {size}");
    }
    // Many segments, of one record.
    for (message, passes) in [(good, true), (bad, false)] {
        let bytes = records(&message, 16384);
        let mut client = tunnel(&proxy, address.port()).await;
        for byte in &bytes {
            client.write_all(&[*byte]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        client.shutdown().await.unwrap();
        assert_eq!(all(&mut client).await, if passes { bytes } else { ALERT.to_vec() });
    }
}

#[tokio::test]
async fn a_hello_that_takes_too_long_or_too_much_is_refused() {
    let (address, seen) = echo().await;
    let head = Duration::from_millis(300);
    let policy = Policy::exact("t", ["ok.test".parse().unwrap()]);
    let proxy = Proxy::open(policy, &[address], |policy| policy.limits.head = head);
    let started = std::time::Instant::now();
    let bytes = client_hello(&server_name("ok.test"));
    let (mut reader, mut writer) = tunnel(&proxy, address.port()).await.into_split();
    let drip = tokio::spawn(async move {
        for byte in bytes {
            if writer.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut answer = Vec::new();
    // A reset after the answer is an end like another.
    let _ = reader.read_to_end(&mut answer).await;
    assert_eq!(answer, ALERT);
    assert!(started.elapsed() >= head && started.elapsed() < head * 5);
    drip.abort();
    // A message of more than 16 KiB, and an end in the middle.
    let padded = message([3, 3], &[server_name("ok.test"), extension(21, &vec![0; 17_000])].concat());
    assert_eq!(first_bytes(&proxy, address.port(), &records(&padded, 16384)).await, ALERT);
    let whole = client_hello(&server_name("ok.test"));
    assert_eq!(first_bytes(&proxy, address.port(), &whole[..whole.len() - 1]).await, ALERT);
    assert!(seen.lock().unwrap().iter().all(Vec::is_empty));
}
