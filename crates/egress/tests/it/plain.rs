//! Plain HTTP requests.

use std::time::Duration;

use stead_egress::{Policy, PortRule};
use tokio::io::AsyncWriteExt;

use crate::harness::{Log, Proxy, answering, read_all, read_until, refusal, upstream};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=5\r\n\r\nhi";

fn get(host: &str) -> String {
    format!("GET http://{host}/path HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

#[tokio::test]
async fn refusals_say_why_and_ask_no_name_server() {
    let exact = Proxy::open(Policy::exact("t", ["ok.test".parse().unwrap()]), &[], |_| {});
    let open = Proxy::open(Policy::open("t"), &[], |policy| policy.ports = PortRule::from_iter([80, 443]));
    for (proxy, request, code, status) in [
        (&exact, get("other.test"), "name_not_allowed", "403"),
        (&exact, get("sub.ok.test"), "name_not_allowed", "403"),
        (&exact, get("8.8.8.8"), "ip_literal", "403"),
        (&exact, get("[2606:4700::1111]"), "ip_literal", "403"),
        (&exact, "CONNECT secret.exfil.test:443 HTTP/1.1\r\n\r\n".to_owned(), "name_not_allowed", "403"),
        (&open, get("127.0.0.1"), "address_denied", "403"),
        (&open, get("169.254.169.254"), "address_denied", "403"),
        (&open, get("[::ffff:169.254.169.254]"), "address_denied", "403"),
        (&open, get("2130706433"), "bad_request", "400"),
        (&open, "CONNECT [::1]:443 HTTP/1.1\r\n\r\n".to_owned(), "address_denied", "403"),
        (&open, "CONNECT a.test:25 HTTP/1.1\r\n\r\n".to_owned(), "port_not_allowed", "403"),
        (&open, get("a.test:8080"), "port_not_allowed", "403"),
        (&open, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(), "not_a_proxy_request", "400"),
        (&open, "GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(), "scheme_not_supported", "400"),
        (&open, "GET http://a.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n".to_owned(), "host_mismatch", "400"),
        (&open, "\x16\x03\x01\x02\x00\x01".to_owned(), "bad_request", "400"),
    ] {
        let answer = proxy.ask(&request).await;
        assert_eq!(refusal(&answer), code, "{request:?}");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    let hosts = |proxy: &Proxy| Vec::from_iter(proxy.handle.stats().refused_hosts);
    assert_eq!(hosts(&exact), ["8.8.8.8", "[2606:4700::1111]", "other.test", "secret.exfil.test", "sub.ok.test"]);
    let closed = ["127.0.0.1", "169.254.169.254", "[::1]", "a.test:25", "a.test:8080"];
    assert_eq!(hosts(&open), closed, "what is malformed names no host");
    assert_eq!(exact.script.questions().len() + open.script.questions().len(), 0);
    assert_eq!((exact.handle.stats().refused, open.handle.stats().refused), (5, 11));
    assert_eq!(refusal(&open.ask(&get("private.test")).await), "address_denied", "resolves to loopback");
}

#[tokio::test]
async fn every_request_of_a_connection_is_judged_anew() {
    let (address, seen) = answering("\r\n\r\n", OK).await;
    let proxy = Proxy::open(Policy::exact("t", ["ok.test".parse().unwrap()]), &[address], |_| {});
    let ok = format!("ok.test:{}", address.port());
    // The same name turns to a private address: the third request is refused although the first two were not.
    proxy.script.answer("ok.test", &["127.0.0.1", "127.0.0.1", "10.0.0.1"]);
    let mut client = proxy.client().await;
    for _ in 0..2 {
        client.write_all(get(&ok).as_bytes()).await.unwrap();
        let answer = read_until(&mut client, "hi").await;
        assert_eq!(answer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nhi");
    }
    client.write_all(get(&ok).as_bytes()).await.unwrap();
    assert_eq!(refusal(&read_all(&mut client).await), "address_denied");
    assert_eq!(proxy.script.questions(), ["ok.test"; 3]);

    // Two requests in one write: the second names another host and never reaches an upstream.
    proxy.script.answer("ok.test", &["127.0.0.1"]);
    let answer = proxy.ask(&format!("{}{}", get(&ok), get("evil.test"))).await;
    let (first, second) = answer.split_once("\r\n\r\nhi").unwrap();
    assert!(first.starts_with("HTTP/1.1 200"));
    assert_eq!(refusal(second), "name_not_allowed");

    let head = format!("GET /path HTTP/1.1\r\nHost: {ok}\r\nConnection: close\r\n\r\n");
    assert_eq!(*seen.lock().unwrap(), [head.clone(), head.clone(), head]);
}

#[tokio::test]
async fn a_registry_on_a_denied_address_is_reached_by_its_name_alone() {
    let (address, _) = answering("\r\n\r\n", OK).await;
    let proxy = Proxy::open(Policy::open("t"), &[], |policy| {
        policy.registry_hosts = ["mirror.test".parse().unwrap()].into();
    });
    let port = address.port();
    let close = |host: &str| get(&format!("{host}:{port}")).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    assert!(proxy.ask(&close("mirror.test")).await.ends_with("\r\nConnection: close\r\n\r\nhi"));
    for host in ["127.0.0.1", "other.test", "x.mirror.test"] {
        assert_eq!(refusal(&proxy.ask(&close(host)).await), "address_denied", "{host}");
    }
}

#[tokio::test]
async fn what_leads_away_from_the_one_host_is_told_from_its_own_refusals() {
    let (address, _) = answering("\r\n\r\n", OK).await;
    let policy = Policy::only("t", "one.test".parse().unwrap(), [address.port()]);
    assert_eq!(policy.limits.idle, Duration::from_secs(30), "a silent host is given up soon");
    let ports = policy.ports.clone();
    let proxy = Proxy::open(policy, &[address], |policy| policy.ports = ports);
    let mut client = proxy.client().await;
    client.write_all(get(&format!("one.test:{}", address.port())).as_bytes()).await.unwrap();
    assert!(read_until(&mut client, "hi").await.starts_with("HTTP/1.1 200 "));
    for request in [get("one.test:81"), get("two.test"), "CONNECT two.test:443 HTTP/1.1\r\n\r\n".to_owned()] {
        let answer = proxy.ask(&request).await;
        assert_eq!(refusal(&answer), "another_host", "{request:?}");
        assert!(answer.starts_with("HTTP/1.1 470 "), "{answer}");
    }
}

#[tokio::test]
async fn the_log_says_how_much_each_request_sent() {
    let (address, _) = answering("body", OK).await;
    let proxy = Proxy::open(Policy::open("t"), &[address], |_| {});
    let host = format!("a.test:{}", address.port());
    let post = format!("POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\n\r\nbody");
    let log = Log::default();
    let _guard = log.keep();
    let mut client = proxy.client().await;
    // In one write: what was read ahead is the second request's.
    client.write_all(post.repeat(2).as_bytes()).await.unwrap();
    for _ in 0..2 {
        read_until(&mut client, "hi").await;
    }
    let line = format!(" sent={} received=", post.len());
    log.wait_for(&line, 2).await;
}

#[tokio::test]
async fn bodies_end_where_they_should() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    let (address, seen) = answering("0\r\n\r\n", chunked).await;
    let proxy = Proxy::open(Policy::open("t"), &[address], |_| {});
    let host = format!("a.test:{}", address.port());
    let post = format!(
        "POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nProxy-Authorization: Basic Zm9v\r\n\r\n\
         3\r\nabc\r\n0\r\n\r\n"
    );
    let mut client = proxy.client().await;
    // The pipelined second request stays out of the first one's upstream connection.
    client.write_all(post.repeat(2).as_bytes()).await.unwrap();
    for _ in 0..2 {
        let answer = read_until(&mut client, "hi\r\n0\r\n\r\n").await;
        assert!(answer.contains("\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n2\r\nhi"), "{answer}");
    }
    for request in seen.lock().unwrap().iter() {
        assert!(
            request.ends_with("\r\n\r\n3\r\nabc\r\n0\r\n\r\n") && request.matches("POST").count() == 1,
            "{request}"
        );
        assert!(!request.contains("Proxy-Authorization"));
    }
    let broken = post.replace("3\r\nabc", "3\nabc");
    assert_eq!(refusal(&proxy.ask(&broken).await), "ambiguous_length");

    // A response without a length ends with the connection, and the client learns so.
    let (address, _) = answering("\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nall of it").await;
    let proxy = Proxy::open(Policy::open("t"), &[address], |_| {});
    let answer = proxy.ask(&get(&format!("a.test:{}", address.port()))).await;
    assert_eq!(answer, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it");
}

#[tokio::test]
async fn a_server_may_ask_to_continue_or_answer_early() {
    let address = upstream(|mut stream| async move {
        let head = read_until(&mut stream, "\r\n\r\n").await;
        if head.contains("Expect: 100-continue") {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
            read_until(&mut stream, "body").await;
        }
        stream.write_all(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    })
    .await;
    let proxy = Proxy::open(Policy::open("t"), &[address], |_| {});
    let host = format!("a.test:{}", address.port());
    let head = format!("POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\n");
    let mut client = proxy.client().await;
    client.write_all(format!("{head}Expect: 100-continue\r\n\r\n").as_bytes()).await.unwrap();
    assert_eq!(read_until(&mut client, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"body").await.unwrap();
    assert!(read_until(&mut client, "\r\n\r\n").await.contains("Connection: keep-alive"));
    // Without the body: the answer passes, and the connection ends with it.
    client.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    assert!(read_all(&mut client).await.starts_with("HTTP/1.1 413 No\r\n"));
}

#[tokio::test]
async fn broken_upstreams_are_told_from_refusals() {
    let (address, _) =
        answering("\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx").await;
    let proxy = Proxy::open(Policy::open("t"), &[address, "127.0.0.1:1".parse().unwrap()], |_| {});
    proxy.script.answer("gone.test", &[]);
    assert_eq!(refusal(&proxy.ask(&get(&format!("a.test:{}", address.port()))).await), "bad_response");
    assert_eq!(refusal(&proxy.ask(&get("a.test:1")).await), "connect_failed");
    let answer = proxy.ask(&get("gone.test")).await;
    assert_eq!(refusal(&answer), "resolve_failed");
    assert!(answer.contains("X-Stead-Egress: failed resolve_failed") && answer.contains("gone.test"));
    assert_eq!((proxy.handle.stats().refused, proxy.handle.stats().failed), (0, 3));

    let silent = upstream(|stream| async move {
        tokio::time::sleep(Duration::from_secs(30)).await;
        drop(stream);
    })
    .await;
    let proxy = Proxy::open(Policy::open("t"), &[silent], |policy| policy.limits.idle = Duration::from_millis(200));
    assert_eq!(refusal(&proxy.ask(&get(&format!("a.test:{}", silent.port()))).await), "idle_timeout");
}
