//! Every address is judged, the connection goes to one that was, and ports are listed.

use stead_egress::{Policy, PortRule};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::{connect, get, restricted};
use crate::harness::{OWN_ADDRESS, Proxy, answering, read_until, refusal};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/// An address of every block that is denied.
const DENIED: &str = "0.0.0.0 127.0.0.1 127.8.8.8 169.254.169.254 169.254.1.1 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 \
    100.64.0.1 100.100.100.200 168.63.129.16 192.0.0.192 192.0.0.8 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 \
    192.88.99.1 224.0.0.1 239.1.2.3 240.0.0.1 255.255.255.255 :: ::1 fe80::1 fc00::1 fd00:ec2::254 fec0::1 ff02::1 \
    2001:db8::1 3fff::1 100::1 2001:2::1 2001:20::1 4000::1";
/// Mapped, compatible, translated, NAT64 (both prefixes), 6to4, Teredo (server and client), ISATAP.
const WRAPPED: &str = "::ffff:127.0.0.1 ::ffff:169.254.169.254 ::10.0.0.1 ::ffff:0:10.0.0.1 64:ff9b::10.0.0.1 64:ff9b::169.254.169.254 \
    64:ff9b:1::10.0.0.1 2002:a00:1:: 2002:a9fe:a9fe::1 2001:0:a00:1::f7f7:f7f7 2001:0:808:808::f5ff:fffe \
    2a00:1450::5efe:10.0.0.1";

#[tokio::test]
async fn every_denied_block_is_refused_by_name_and_by_address() {
    let (open, exact) = (Proxy::open(Policy::open("t"), &[], |_| {}), restricted(&[]));
    for text in DENIED.split_whitespace().chain(WRAPPED.split_whitespace()) {
        let literal = if text.contains(':') { format!("[{text}]") } else { text.to_owned() };
        for request in [get(&literal), connect(&literal, 443)] {
            assert_eq!(refusal(&open.ask(&request).await), "address_denied", "{request:?}");
        }
        for proxy in [&open, &exact] {
            proxy.script.answer_all("ok.test", &[text]);
            for request in [get("ok.test"), connect("ok.test", 443)] {
                assert_eq!(refusal(&proxy.ask(&request).await), "address_denied", "{text}: {request:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_machines_own_public_addresses_are_refused() {
    let (open, exact) = (Proxy::open(Policy::open("t"), &[], |_| {}), restricted(&[]));
    let wrapped =
        [format!("[::ffff:{OWN_ADDRESS}]"), format!("[64:ff9b::{OWN_ADDRESS}]"), "[2002:808:404::1]".to_owned()];
    for literal in wrapped.into_iter().chain([OWN_ADDRESS.to_string()]) {
        assert_eq!(refusal(&open.ask(&connect(&literal, 443)).await), "address_denied", "{literal}");
        exact.script.answer_all("ok.test", &[literal.trim_matches(['[', ']'])]);
        assert_eq!(refusal(&exact.ask(&connect("ok.test", 443)).await), "address_denied", "{literal}");
    }
}

#[tokio::test]
async fn a_name_with_good_and_bad_addresses_reaches_the_good_ones_alone() {
    let (address, seen) = answering("\r\n\r\n", OK).await;
    // Somebody listens on the denied address as well, at the same port.
    let trap = TcpListener::bind(("127.0.0.2", address.port())).await.unwrap();
    let proxy = restricted(&[address]);
    let request = get(&format!("ok.test:{}", address.port()));
    for answer in [["127.0.0.2", "127.0.0.1", "10.0.0.1"], ["127.0.0.1", "127.0.0.2", "::1"]] {
        proxy.script.answer_all("ok.test", &answer);
        let mut client = proxy.client().await;
        client.write_all(request.as_bytes()).await.unwrap();
        read_until(&mut client, "hi").await;
    }
    proxy.script.answer_all("ok.test", &["127.0.0.2", "10.0.0.1", "fd00:ec2::254"]);
    assert_eq!(refusal(&proxy.ask(&request).await), "address_denied");
    assert_eq!(seen.lock().unwrap().len(), 2);
    let trapped = tokio::time::timeout(std::time::Duration::from_millis(50), trap.accept()).await;
    assert!(trapped.is_err(), "the denied address was dialled");
}

#[tokio::test]
async fn a_name_that_turns_private_between_two_questions_gains_nothing() {
    let (address, seen) = answering("\r\n\r\n", OK).await;
    let trap = TcpListener::bind(("127.0.0.2", address.port())).await.unwrap();
    let proxy = restricted(&[address]);
    proxy.script.answer("ok.test", &["127.0.0.1", "127.0.0.2"]);
    let request = get(&format!("ok.test:{}", address.port()));
    let mut client = proxy.client().await;
    client.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut client, "hi").await;
    assert_eq!(proxy.script.questions().len(), 1, "judged and connected by one answer");
    // The second request is another question, and is judged by the second answer.
    client.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(refusal(&crate::harness::read_all(&mut client).await), "address_denied");
    assert_eq!(seen.lock().unwrap().len(), 1);
    assert!(tokio::time::timeout(std::time::Duration::from_millis(50), trap.accept()).await.is_err());
}

#[tokio::test]
async fn only_listed_ports_are_open() {
    let ports = |ports: PortRule| move |policy: &mut Policy| policy.ports = ports;
    let exact = Policy::exact("t", ["ok.test".parse().unwrap()]);
    let web = exact.ports.clone();
    assert_eq!(web, PortRule::from_iter([80, 443]), "restricted opens the web and nothing else");
    let proxy = Proxy::open(exact, &[], ports(web));
    for port in [0, 1, 22, 25, 8080, 8443, 65535] {
        assert_eq!(refusal(&proxy.ask(&connect("ok.test", port)).await), "port_not_allowed", "{port}");
        assert_eq!(refusal(&proxy.ask(&get(&format!("ok.test:{port}"))).await), "port_not_allowed", "{port}");
    }
    for port in ["65536", "-1", "+443", "0x1bb", "443x", ""] {
        let request = format!("CONNECT ok.test:{port} HTTP/1.1\r\n\r\n");
        assert_eq!(refusal(&proxy.ask(&request).await), "bad_request", "{port}");
    }
    assert!(proxy.script.questions().is_empty());
    // Where the operator opens all ports, names and addresses are judged all the same.
    let (address, _) = answering("x", "seen").await;
    let proxy = Proxy::open(Policy::open("t"), &[address], ports(PortRule::Any));
    let mut client = proxy.client().await;
    client.write_all(format!("{}x", connect("a.test", address.port())).as_bytes()).await.unwrap();
    read_until(&mut client, "seen").await;
    assert_eq!(refusal(&proxy.ask(&connect("127.0.0.1", 5432)).await), "address_denied");
    assert_eq!(refusal(&proxy.ask(&connect("a.test", 0)).await), "port_not_allowed");
}
