//! Bounds that concern many connections; those of a single one are in `bounds`.

use std::time::{Duration, Instant};

use stead_egress::Policy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{connect, get};
use crate::harness::{Log, Proxy, read_until, refusal, upstream};

#[tokio::test]
async fn many_connections_at_once_are_served_and_one_more_is_not() {
    let address = upstream(|mut stream| async move {
        let (mut reader, mut writer) = stream.split();
        // The client hangs up at the end of the test.
        let _ = tokio::io::copy(&mut reader, &mut writer).await;
    })
    .await;
    let proxy = Proxy::open(Policy::open("t"), &[address], |_| {});
    let mut clients = Vec::new();
    for _ in 0..256 {
        let mut client = proxy.client().await;
        client.write_all(connect("a.test", address.port()).as_bytes()).await.unwrap();
        clients.push(client);
    }
    for (number, client) in clients.iter_mut().enumerate() {
        read_until(client, "\r\n\r\n").await;
        client.write_all(format!("number {number}").as_bytes()).await.unwrap();
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(read_until(client, &format!("number {number}")).await, format!("number {number}"));
    }
    assert_eq!(refusal(&proxy.ask("").await), "too_many_connections");
    assert_eq!(proxy.handle.close().await.connections, 257);
}

#[tokio::test]
async fn names_that_never_answer_do_not_hold_up_what_is_refused() {
    let proxy = Proxy::open(Policy::exact("t", ["slow.test".parse().unwrap()]), &[], |_| {});
    proxy.script.never("slow.test");
    let mut waiting = Vec::new();
    for _ in 0..40 {
        let mut client = proxy.client().await;
        client.write_all(connect("slow.test", 443).as_bytes()).await.unwrap();
        waiting.push(client);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let asked = proxy.script.questions().len();
    assert!((1..=12).contains(&asked), "{asked} questions at once");
    let started = Instant::now();
    assert_eq!(refusal(&proxy.ask(&get("other.test")).await), "name_not_allowed");
    assert!(started.elapsed() < Duration::from_millis(500));
    // Each of them is answered in the end, as the resolver's deadline passes.
    let mut first = waiting.remove(0);
    assert!(read_until(&mut first, "\n").await.starts_with("HTTP/1.1 502 "));
}

#[tokio::test]
async fn a_flood_is_counted_and_does_not_fill_the_log() {
    let proxy = Proxy::open(Policy::open("t"), &[], |_| {});
    let log = Log::default();
    let _guard = log.keep();
    for _ in 0..150 {
        let mut client = proxy.client().await;
        client.write_all(get("10.0.0.1").as_bytes()).await.unwrap();
        let mut answer = [0; 4096];
        assert!(client.read(&mut answer).await.unwrap() > 0);
    }
    assert_eq!(proxy.handle.stats().refused, 150);
    assert_eq!(log.text().matches("address_denied").count(), 100);
    assert_eq!(log.text().matches("more_is_counted_only").count(), 1);
}
