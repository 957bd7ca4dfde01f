//! Policy is by name, and the proxy resolves.

use tokio::io::AsyncWriteExt;

use super::{connect, get, restricted};
use crate::harness::{answering, read_all, read_until, refusal};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

#[tokio::test]
async fn the_proxy_resolves_and_a_refused_name_asks_nobody() {
    let (address, _) = answering("\r\n\r\n", OK).await;
    let proxy = restricted(&[address]);
    for host in ["other.test", "sub.ok.test", "ok.test.evil.test", "k.test", "test", "xn--k-mka.test", "localhost"] {
        assert_eq!(refusal(&proxy.ask(&get(host)).await), "name_not_allowed", "{host}");
        assert_eq!(refusal(&proxy.ask(&connect(host, 443)).await), "name_not_allowed", "{host}");
    }
    assert!(proxy.script.questions().is_empty());
    let mut client = proxy.client().await;
    client.write_all(get(&format!("ok.test:{}", address.port())).as_bytes()).await.unwrap();
    read_until(&mut client, "hi").await;
    assert_eq!(proxy.script.questions(), ["ok.test"]);
}

#[tokio::test]
async fn a_name_has_one_spelling() {
    let (address, seen) = answering("\r\n\r\n", OK).await;
    let proxy = restricted(&[address]);
    for host in ["ok.test", "OK.Test", "ok.test.", "OK.TEST."] {
        let mut client = proxy.client().await;
        client.write_all(get(&format!("{host}:{}", address.port())).as_bytes()).await.unwrap();
        read_until(&mut client, "hi").await;
    }
    let host = format!("\r\nHost: ok.test:{}\r\n", address.port());
    assert!(seen.lock().unwrap().iter().all(|request| request.contains(&host)));
    // What is no plain name is not guessed at, in either form of request.
    let hosts = "ok.test.. .ok.test ok..test ok%2etest %6fk.test \u{f6}k.test ok\u{3002}test user@ok.test ok.test@evil.test \
        user:secret@ok.test ok.test\\evil.test ok.test%00.evil.test ok.test#.evil.test ok.test;evil.test -ok.test \
        *.test";
    for host in hosts.split_whitespace() {
        for request in [get(host), connect(host, 443)] {
            assert_eq!(refusal(&proxy.ask(&request).await), "bad_request", "{request:?}");
        }
    }
    assert_eq!(proxy.script.questions().len(), 4);
}

#[tokio::test]
async fn an_address_is_no_name() {
    let proxy = restricted(&["127.0.0.1:1".parse().unwrap()]);
    for host in ["127.0.0.1", "93.184.216.34", "[::1]", "[2606:4700::1111]", "[::ffff:93.184.216.34]"] {
        for request in [get(host), connect(host, 443)] {
            assert_eq!(refusal(&proxy.ask(&request).await), "ip_literal", "{request:?}");
        }
    }
    // The old spellings of IPv4 addresses: short, octal, hexadecimal, one number, with a dot at the end; and zones.
    let hosts = "127.1 0177.0.0.1 0x7f.0.0.1 0x7f000001 2130706433 017700000001 127.0.0.1. 127.0.0.01 1.2.3.4.5 256.0.0.1 \
        [::1%25lo] [::1 ::1 [127.0.0.1] [0:0:0:0:0:0:0:0:1] ok.1";
    for host in hosts.split_whitespace() {
        for request in [get(host), connect(host, 443)] {
            assert_eq!(refusal(&proxy.ask(&request).await), "bad_request", "{request:?}");
        }
    }
    assert!(proxy.script.questions().is_empty());
}

#[tokio::test]
async fn a_redirect_is_the_clients_next_request_and_judged_as_one() {
    let elsewhere = "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n";
    let (address, seen) = answering("\r\n\r\n", elsewhere).await;
    let proxy = restricted(&[address]);
    let mut client = proxy.client().await;
    client.write_all(get(&format!("ok.test:{}", address.port())).as_bytes()).await.unwrap();
    let answer = read_until(&mut client, "\r\n\r\n").await;
    assert!(
        answer.starts_with("HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\n"),
        "passed on, not followed"
    );
    // On the same connection and on another one.
    client.write_all(get("169.254.169.254").as_bytes()).await.unwrap();
    assert_eq!(refusal(&read_all(&mut client).await), "ip_literal");
    assert_eq!(refusal(&proxy.ask(&get("evil.test")).await), "name_not_allowed");
    assert_eq!(seen.lock().unwrap().len(), 1);
}
