//! Plain HTTP: absolute form, one host in URL and `Host`, one reading of every message, checked for every request anew.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{get, restricted};
use crate::harness::{Proxy, answering, read_all, read_until, refusal, upstream};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/// A restricted proxy, `ok.test` with its port, and the requests that came there.
async fn site() -> (Proxy, String, Arc<Mutex<Vec<String>>>) {
    let (address, seen) = answering("\r\n\r\n", OK).await;
    (restricted(&[address]), format!("ok.test:{}", address.port()), seen)
}

#[tokio::test]
async fn the_host_header_must_equal_the_host_of_the_url() {
    let (proxy, ok, seen) = site().await;
    let url = format!("GET http://{ok}/ HTTP/1.1\r\n");
    let port = ok.rsplit(':').next().unwrap();
    for fields in [
        String::new(),
        "Host:\r\n".to_owned(),
        "Host: ok.test\r\n".to_owned(),
        format!("Host: ok.test:1{port}\r\n"),
        format!("Host: other.test:{port}\r\n"),
        format!("Host: {ok}, other.test\r\n"),
        format!("Host: {ok}\r\nHost: {ok}\r\n"),
        format!("Host: {ok}\r\nhost: other.test\r\n"),
        format!("Host: user@{ok}\r\n"),
        format!("Host: http://{ok}\r\n"),
        format!("Host: {ok}/\r\n"),
        format!("Host: \u{f6}{ok}\r\n"),
    ] {
        assert_eq!(refusal(&proxy.ask(&format!("{url}{fields}\r\n")).await), "host_mismatch", "{fields:?}");
    }
    for fields in [
        format!("Host: {ok}\r\n continued\r\n"),
        format!("Host : {ok}\r\n"),
        format!("Host: {ok}\0\r\n"),
        format!("Host: {ok}\r\n : x\r\n"),
        format!(" Host: {ok}\r\n"),
    ] {
        assert_eq!(refusal(&proxy.ask(&format!("{url}{fields}\r\n")).await), "bad_request", "{fields:?}");
    }
    assert!(seen.lock().unwrap().is_empty());
    // Another case, the dot at the end: the same host, and the origin sees the one spelling.
    for host in [ok.to_uppercase(), ok.replace(':', ".:")] {
        let mut client = proxy.client().await;
        client.write_all(format!("{url}Host: {host}\r\n\r\n").as_bytes()).await.unwrap();
        read_until(&mut client, "hi").await;
    }
    let expected = format!("GET / HTTP/1.1\r\nHost: {ok}\r\nConnection: close\r\n\r\n");
    assert_eq!(*seen.lock().unwrap(), [expected.clone(), expected]);
    // The default port may be said or left out.
    for (url, host) in [("ok.test:80", "ok.test"), ("ok.test", "ok.test:80")] {
        let answer = proxy.ask(&format!("GET http://{url}/ HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
        assert_ne!(refusal(&answer), "host_mismatch", "{url} and {host}");
    }
}

#[tokio::test]
async fn only_absolute_http_urls_are_understood() {
    let (proxy, ok, seen) = site().await;
    for (target, code) in [
        ("/", "not_a_proxy_request"),
        ("*", "not_a_proxy_request"),
        ("//ok.test/", "not_a_proxy_request"),
        ("https://ok.test/", "scheme_not_supported"),
        ("ftp://ok.test/", "scheme_not_supported"),
        ("file:///etc/passwd", "scheme_not_supported"),
        ("ok.test:80", "bad_request"),
        ("http:/ok.test/", "bad_request"),
        ("http://", "bad_request"),
        ("http:///path", "bad_request"),
        ("http://user@ok.test/", "bad_request"),
        ("http://user:secret@ok.test/", "bad_request"),
        ("http://ok.test#fragment", "bad_request"),
        ("http://ok.test/path#fragment", "bad_request"),
        ("http://evil.test#@ok.test/", "bad_request"),
        ("http://ok.test\\@evil.test/", "bad_request"),
        ("http://ok.test:80:80/", "bad_request"),
        ("http://ok.test:/", "bad_request"),
        ("http://ok.test /", "bad_request"),
        ("http://[ok.test]/", "bad_request"),
    ] {
        let answer = proxy.ask(&format!("GET {target} HTTP/1.1\r\nHost: ok.test\r\n\r\n")).await;
        assert_eq!(refusal(&answer), code, "{target}");
    }
    for line in
        [format!("GET http://{ok}/ HTTP/2.0"), format!("GET http://{ok}/"), format!("G\u{f6}T http://{ok}/ HTTP/1.1")]
    {
        assert_eq!(refusal(&proxy.ask(&format!("{line}\r\nHost: {ok}\r\n\r\n")).await), "bad_request", "{line}");
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn every_request_of_a_kept_connection_is_checked() {
    let (proxy, ok, seen) = site().await;
    let bad = [
        (get("other.test"), "name_not_allowed"),
        (get("10.0.0.1"), "ip_literal"),
        (format!("GET http://{ok}/ HTTP/1.1\r\nHost: other.test\r\n\r\n"), "host_mismatch"),
        ("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n".to_owned(), "not_a_proxy_request"),
        ("CONNECT other.test:443 HTTP/1.1\r\n\r\n".to_owned(), "name_not_allowed"),
        ("\x05\x01\x00\x05\x01\x00\x03\x01a\x00\x50".to_owned(), "bad_request"),
    ];
    for (request, code) in &bad {
        // One after the other, and both in one write.
        let mut client = proxy.client().await;
        client.write_all(get(&ok).as_bytes()).await.unwrap();
        assert!(read_until(&mut client, "hi").await.contains("\r\nConnection: keep-alive\r\n"));
        client.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(refusal(&read_all(&mut client).await), *code, "{request:?}");
        let both = proxy.ask(&format!("{}{request}", get(&ok))).await;
        assert_eq!(refusal(both.split_once("\r\n\r\nhi").unwrap().1), *code, "{request:?}");
    }
    let seen = seen.lock().unwrap();
    assert!(
        seen.len() == 2 * bad.len() && seen.iter().all(|request| request.matches("HTTP/1.1").count() == 1),
        "{seen:?}"
    );
}

#[tokio::test]
async fn no_second_request_hides_in_the_first() {
    let (address, seen) = answering("0\r\n\r\n", OK).await;
    let proxy = restricted(&[address]);
    let ok = format!("ok.test:{}", address.port());
    let head = format!("POST http://{ok}/ HTTP/1.1\r\nHost: {ok}\r\n");
    let hidden = "GET /hidden HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    for (fields, body) in [
        ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "0\r\n\r\n"),
        ("Content-Length: 0\r\nContent-Length: 45\r\n", ""),
        ("Content-Length: 0, 45\r\n", ""),
        ("Content-Length: +0\r\n", ""),
        ("Content-Length: 0x0\r\n", ""),
        ("Content-Length: \r\n", ""),
        ("Content-Length: 0 0\r\n", ""),
        ("Content-Length: 18446744073709551616\r\n", ""),
        ("Transfer-Encoding: identity\r\n", ""),
        ("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"),
        // The head is well-formed, the chunks are not: the bare line feed, sizes that readers read differently, trailers.
        ("Transfer-Encoding: chunked\r\n", "0\n\n"),
        ("Transfer-Encoding: chunked\r\n", "0\r\n\n"),
        ("Transfer-Encoding: chunked\r\n", "0x0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "+0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "0 \r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "1;a\nb\r\nx\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "1\r\nxx\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "0\r\nContent-Length: 45\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "10000000000000000\r\n"),
    ] {
        let answer = proxy.ask(&format!("{head}{fields}\r\n{body}{hidden}")).await;
        assert_eq!(refusal(&answer), "ambiguous_length", "{fields:?} {body:?}");
    }
    for fields in [
        "Content-Length : 45\r\n",
        "Content-Length\t: 45\r\n",
        "Transfer-Encoding\0: chunked\r\n",
        "X: a\rContent-Length: 45\r\n",
        "X: a\0b\r\n",
        "X\r\n",
    ] {
        let answer = proxy.ask(&format!("{head}{fields}\r\n{hidden}")).await;
        assert_eq!(refusal(&answer), "bad_request", "{fields:?}");
    }
    // An extension is allowed and passes; what follows the last chunk is another request, and refused as one.
    let answer = proxy.ask(&format!("{head}Transfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\n\r\n{hidden}")).await;
    assert_eq!(refusal(answer.split_once("\r\n\r\nhi").unwrap().1), "not_a_proxy_request");
    let seen = seen.lock().unwrap();
    assert!(
        seen.iter().all(|request| !request.contains("hidden") && request.matches("HTTP/1.1").count() == 1),
        "{seen:?}"
    );
}

#[tokio::test]
async fn the_origin_sees_a_head_of_ours_alone() {
    let (proxy, ok, seen) = site().await;
    // Lines may end with a line feed alone; none that goes on does.
    let request = format!(
        "GET http://{ok}/p HTTP/1.1\nHost: {ok}\nProxy-Authorization: Basic c2VjcmV0\nProxy-Connection: keep-alive, X-Proxy-Hop\n\
         Connection: X-Hop, Host, Upgrade, HTTP2-Settings\nX-Hop: 1\nX-Proxy-Hop: 1\nKeep-Alive: 5\nTE: trailers\nTrailer: X\nUpgrade: h2c\n\
         HTTP2-Settings: AAMAAABk\nProxy-Authenticate: Basic\nAuthorization: Bearer own\nX-Kept: yes\n\n"
    );
    let mut client = proxy.client().await;
    client.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut client, "hi").await;
    let expected = format!(
        "GET /p HTTP/1.1\r\nHost: {ok}\r\nAuthorization: Bearer own\r\nX-Kept: yes\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(*seen.lock().unwrap(), [expected]);
}

#[tokio::test]
async fn a_connection_is_not_switched_to_another_protocol() {
    let switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n";
    let (address, seen) = answering("\r\n\r\n", switching).await;
    let proxy = restricted(&[address]);
    let ok = format!("ok.test:{}", address.port());
    let answer =
        proxy.ask(&get(&ok).replace("\r\n\r\n", "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")).await;
    assert_eq!(refusal(&answer), "bad_response");
    assert!(!seen.lock().unwrap()[0].to_lowercase().contains("upgrade"));
}

#[tokio::test]
async fn a_client_that_has_said_all_still_gets_its_answer() {
    let address = upstream(|mut stream| async move {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(read > 0);
        stream.write_all(OK.as_bytes()).await.unwrap();
    })
    .await;
    let proxy = restricted(&[address]);
    let mut client = proxy.client().await;
    client.write_all(get(&format!("ok.test:{}", address.port())).as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    assert!(read_all(&mut client).await.ends_with("\r\n\r\nhi"));
}

#[tokio::test]
async fn a_large_body_arrives_whole_and_no_more_than_it() {
    const LENGTH: usize = 3_000_000;
    let body = |length: usize| (0..length).map(|at| (at % 251) as u8).collect::<Vec<_>>();
    let address = upstream(move |mut stream| async move {
        let request = read_until(&mut stream, "\r\n\r\n").await;
        let (said, sent) = match request.split(' ').nth(1) {
            // More than was said, less than was said, and up to the close.
            Some("/more") => (Some(LENGTH), LENGTH + 100_000),
            Some("/less") => (Some(LENGTH), LENGTH - 1),
            _ => (None, LENGTH),
        };
        let said = said.map(|said| format!("Content-Length: {said}\r\n")).unwrap_or_default();
        // The client may have what it wants before all is sent.
        let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{said}\r\n").as_bytes()).await;
        let _ = stream.write_all(&body(sent)).await;
    })
    .await;
    let proxy = restricted(&[address]);
    let ok = format!("ok.test:{}", address.port());
    for (path, goes_on) in [("more", true), ("less", false), ("close", false)] {
        let mut client = proxy.client().await;
        client.write_all(get(&ok).replacen("/ HTTP", &format!("/{path} HTTP"), 1).as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        let mut received = vec![0; if path == "less" { LENGTH - 1 } else { LENGTH }];
        client.read_exact(&mut received).await.unwrap();
        assert!(received == body(received.len()), "{path}");
        if goes_on {
            // The surplus is not taken for the next answer.
            client.write_all(get("other.test").as_bytes()).await.unwrap();
            assert_eq!(refusal(&read_all(&mut client).await), "name_not_allowed", "{path}");
        } else {
            assert_eq!(read_all(&mut client).await, "", "{path}");
        }
    }
    assert!(proxy.handle.stats().bytes_down > 3 * (LENGTH as u64 - 1));
}
