//! Limits: connections, time, sizes, bytes.

use std::time::{Duration, Instant};

use stead_egress::Policy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{Proxy, answering, read_all, read_until, refusal, upstream};

#[tokio::test]
async fn connections_at_once_are_bounded() {
    let (address, _) = answering("\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    let proxy = Proxy::open(Policy::open("t"), &[address], |policy| policy.limits.connections = 2);
    let request = format!("GET http://a.test:{0}/ HTTP/1.1\r\nHost: a.test:{0}\r\n\r\n", address.port());
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut client = proxy.client().await;
        client.write_all(request.as_bytes()).await.unwrap();
        read_until(&mut client, "hi").await;
        held.push(client);
    }
    let mut third = proxy.client().await;
    assert_eq!(refusal(&read_all(&mut third).await), "too_many_connections");
    held.pop();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut fourth = proxy.client().await;
    fourth.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut fourth, "hi").await;
    let stats = proxy.handle.stats();
    assert_eq!((stats.connections, stats.active, stats.refused), (4, 2, 1));
}

#[tokio::test]
async fn silence_ends_a_connection() {
    let address = upstream(|mut stream| async move {
        let mut bytes = [0; 64];
        while stream.read(&mut bytes).await.unwrap_or_default() > 0 {}
    })
    .await;
    let idle = Duration::from_millis(300);
    let proxy = Proxy::open(Policy::open("t"), &[address], |policy| policy.limits.idle = idle);
    let started = Instant::now();
    assert_eq!(proxy.ask("").await, "", "a client that never asks");
    let mut client = proxy.client().await;
    client.write_all(format!("CONNECT a.test:{} HTTP/1.1\r\n\r\n", address.port()).as_bytes()).await.unwrap();
    read_until(&mut client, "\r\n\r\n").await;
    // Traffic in one direction alone keeps a tunnel open beyond the idle time.
    let busy = Instant::now();
    while busy.elapsed() < 2 * idle {
        client.write_all(b"x").await.unwrap();
        tokio::time::sleep(idle / 6).await;
    }
    let quiet = Instant::now();
    assert_eq!(read_all(&mut client).await, "");
    assert!(quiet.elapsed() >= idle / 2 && started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn only_who_has_asked_may_be_silent_for_long() {
    let (address, _) = answering("\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    let head = Duration::from_millis(300);
    let proxy = Proxy::open(Policy::open("t"), &[address], |policy| policy.limits.head = head);
    let mut asking = proxy.client().await;
    let request = format!("GET http://a.test:{0}/ HTTP/1.1\r\nHost: a.test:{0}\r\n\r\n", address.port());
    asking.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut asking, "hi").await;
    let started = Instant::now();
    assert_eq!(proxy.ask("").await, "");
    assert!(started.elapsed() >= head / 2 && started.elapsed() < head * 10);
    tokio::time::sleep(head).await;
    asking.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut asking, "hi").await;
}

#[tokio::test]
async fn a_head_must_arrive_in_time_and_in_size() {
    let head = Duration::from_millis(300);
    let proxy = Proxy::open(Policy::open("t"), &[], |policy| policy.limits.head = head);
    // A byte now and then does not move the deadline.
    let (mut reader, mut writer) = proxy.client().await.into_split();
    let drip = tokio::spawn(async move {
        for byte in b"GET http://a.test/ HTTP/1.1\r\nX: ".iter().chain(std::iter::repeat(&b'y')) {
            if writer.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let started = Instant::now();
    let mut answer = vec![0; 4096];
    let read = tokio::time::timeout(Duration::from_secs(5), reader.read(&mut answer)).await.unwrap().unwrap();
    assert_eq!(refusal(std::str::from_utf8(&answer[..read]).unwrap()), "head_timeout");
    assert!(started.elapsed() < head * 4);
    drip.abort();

    let field =
        |size: usize| format!("GET http://127.0.0.1/ HTTP/1.1\r\nHost: 127.0.0.1\r\nX: {}\r\n\r\n", "y".repeat(size));
    assert_eq!(refusal(&proxy.ask(&field(20_000)).await), "head_too_large");
    assert_eq!(refusal(&proxy.ask(&"z".repeat(20_000)).await), "head_too_large");
    assert_eq!(refusal(&proxy.ask(&"\r\n".repeat(20_000)).await), "head_too_large");
    assert_eq!(refusal(&proxy.ask(&field(16_000)).await), "address_denied", "just inside the bound");

    // A tunnel that owes a ClientHello has the same deadline.
    let address = upstream(|mut stream| async move {
        stream.read_u8().await.unwrap_or_default();
    })
    .await;
    let exact = Policy::exact("t", ["ok.test".parse().unwrap()]);
    let proxy = Proxy::open(exact, &[address], |policy| policy.limits.head = head);
    let answer = proxy.ask(&format!("CONNECT ok.test:{} HTTP/1.1\r\n\r\n\x16\x03\x01", address.port())).await;
    assert!(answer.starts_with("HTTP/1.1 200 "));
    assert_eq!(proxy.handle.stats().refused, 1);
}

#[tokio::test]
async fn bytes_are_bounded() {
    let address = upstream(|mut stream| async move { while stream.write_all(&[b'x'; 4096]).await.is_ok() {} }).await;
    let limit = 100_000;
    let proxy = Proxy::open(Policy::open("t"), &[address], |policy| policy.limits.total_bytes = Some(limit));
    let request = format!("CONNECT a.test:{} HTTP/1.1\r\n\r\n", address.port());
    let received = proxy.ask(&request).await.len() as u64;
    assert!(received >= limit - 1000 && received <= limit + 1024 * 1024, "{received}");
    assert_eq!(refusal(&proxy.ask(&request).await), "byte_limit");
}
