//! SOCKS 5: the same fence behind another greeting.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use stead_egress::{Policy, PortRule};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::harness::{Log, Proxy, answering, read_until, upstream};
use crate::hello::{client_hello, server_name};

const GREETING: &[u8] = &[5, 1, 0];
const ACCEPTED: [u8; 2] = [5, 0];

fn request(command: u8, kind: u8, address: &[u8], port: u16) -> Vec<u8> {
    [&[5, command, 0, kind], address, &port.to_be_bytes()].concat()
}

fn to_name(name: &str, port: u16) -> Vec<u8> {
    request(1, 3, &[&[name.len() as u8], name.as_bytes()].concat(), port)
}

async fn read<const LENGTH: usize>(client: &mut UnixStream) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    tokio::time::timeout(Duration::from_secs(5), client.read_exact(&mut bytes)).await.expect("an answer").unwrap();
    bytes
}

/// Greets, asks and returns the connection with the reply's code.
async fn ask(proxy: &Proxy, request: &[u8]) -> (UnixStream, u8) {
    let mut client = proxy.client().await;
    client.write_all(GREETING).await.unwrap();
    assert_eq!(read::<2>(&mut client).await, ACCEPTED);
    client.write_all(request).await.unwrap();
    let reply: [u8; 10] = read(&mut client).await;
    assert_eq!((reply[0], &reply[2..]), (5, [0, 1, 0, 0, 0, 0, 0, 0].as_slice()), "no address of ours is told");
    (client, reply[1])
}

async fn ends(client: &mut UnixStream) {
    let end = tokio::time::timeout(Duration::from_secs(5), client.read(&mut [0; 16])).await.expect("the end");
    assert_eq!(end.unwrap_or(0), 0);
}

#[tokio::test]
async fn where_all_ports_are_open_any_protocol_passes() {
    let (address, seen) = answering("over\r\n", "220 hello\r\n").await;
    let proxy = Proxy::open(Policy::open("env_1"), &[address], |policy| policy.ports = PortRule::Any);
    let log = Log::default();
    let _guard = log.keep();
    let (mut client, code) = ask(&proxy, &to_name("a.test", address.port())).await;
    assert_eq!(code, 0);
    client.write_all(b"whatever it is, over\r\n").await.unwrap();
    read_until(&mut client, "220 hello\r\n").await;
    drop(client);
    assert_eq!(proxy.script.questions(), ["a.test"], "the proxy resolves");
    log.wait_for(&format!("host=\"a.test\" port={} decision=\"tunnelled\"", address.port()), 1).await;
    // An address, and everything in one write.
    let mut client = proxy.client().await;
    let literal = request(1, 1, &Ipv4Addr::LOCALHOST.octets(), address.port());
    client.write_all(&[GREETING, &literal, b"at once, over\r\n"].concat()).await.unwrap();
    assert_eq!(read::<2>(&mut client).await, ACCEPTED);
    assert_eq!(read::<10>(&mut client).await[1], 0);
    read_until(&mut client, "220 hello\r\n").await;
    assert_eq!(*seen.lock().unwrap(), ["whatever it is, over\r\n", "at once, over\r\n"]);
    let stats = proxy.handle.stats();
    assert_eq!((stats.connections, stats.refused, stats.failed), (2, 0, 0));
    assert!(stats.bytes_up > 40 && stats.bytes_down > 20);
}

#[tokio::test]
async fn refusals_have_the_reply_codes_of_the_protocol() {
    let dead = "127.0.0.1:1".parse().unwrap();
    let exact = Proxy::open(Policy::exact("t", ["ok.test".parse().unwrap()]), &[], |policy| {
        policy.ports = PortRule::from_iter([80, 443]);
    });
    let open = Proxy::open(Policy::open("t"), &[dead], |_| {});
    open.script.answer("gone.test", &[]);
    let (public, private) = (Ipv4Addr::new(93, 184, 216, 34).octets(), Ipv4Addr::new(169, 254, 169, 254).octets());
    let metadata: Ipv6Addr = "fd00:ec2::254".parse().unwrap();
    for (proxy, message, code, what) in [
        (&exact, to_name("other.test", 443), 2, "a name that is not listed"),
        (&exact, to_name("sub.ok.test", 443), 2, "a relative of a listed name"),
        (&exact, to_name("ok.test", 22), 2, "a port that is not listed"),
        (&exact, request(1, 1, &public, 443), 2, "an address under exact names"),
        (&exact, to_name("93.184.216.34", 443), 2, "an address spelled as a name"),
        (&exact, to_name("ok.test", 443), 2, "a name that is at a denied address"),
        (&open, request(1, 1, &private, 80), 2, "a denied address"),
        (&open, request(1, 4, &metadata.octets(), 80), 2, "a denied IPv6 address"),
        (&open, request(1, 4, &Ipv4Addr::from(private).to_ipv6_mapped().octets(), 80), 2, "the same, wrapped"),
        (&open, to_name("a.test", 0), 2, "port 0"),
        (&open, to_name("gone.test", 80), 4, "a name without an address"),
        (&open, to_name("a.test", 1), 5, "nobody listens"),
        (&open, request(2, 1, &public, 80), 7, "BIND"),
        (&open, request(3, 1, &public, 80), 7, "UDP ASSOCIATE"),
        (&open, request(1, 2, &public, 80), 8, "an unknown address type"),
        (&open, to_name("127.1", 80), 1, "no name"),
        (&open, [&[4], &request(1, 1, &public, 80)[1..]].concat(), 1, "another version"),
    ] {
        let (mut client, reply) = ask(proxy, &message).await;
        assert_eq!(reply, code, "{what}");
        ends(&mut client).await;
    }
    assert_eq!((exact.handle.stats().refused, open.handle.stats().failed), (6, 2));
    assert_eq!(exact.script.questions(), ["ok.test"], "a refused name asks nobody");
    // Before the method is agreed on there is one refusal.
    for greeting in [[5, 1, 2].as_slice(), &[5, 0], &[5, 3, 1, 2, 0x80]] {
        let mut client = open.client().await;
        client.write_all(greeting).await.unwrap();
        assert_eq!(read::<2>(&mut client).await, [5, 0xff], "{greeting:?}");
        ends(&mut client).await;
    }
}

#[tokio::test]
async fn under_exact_names_the_server_name_rule_holds() {
    let address = upstream(|mut stream| async move {
        let mut bytes = vec![0; 4096];
        let read = stream.read(&mut bytes).await.unwrap_or_default();
        // A refused tunnel is gone by now.
        let _ = stream.write_all(&bytes[..read]).await;
    })
    .await;
    let proxy = Proxy::open(Policy::exact("t", ["ok.test".parse().unwrap()]), &[address], |_| {});
    let hello = client_hello(&server_name("ok.test"));
    let (mut client, code) = ask(&proxy, &to_name("OK.test.", address.port())).await;
    assert_eq!(code, 0);
    client.write_all(&hello).await.unwrap();
    let mut echoed = vec![0; hello.len()];
    client.read_exact(&mut echoed).await.unwrap();
    assert_eq!(echoed, hello);
    for bytes in
        [client_hello(&server_name("other.test")), client_hello(&[]), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()]
    {
        let (mut client, code) = ask(&proxy, &to_name("ok.test", address.port())).await;
        assert_eq!(code, 0);
        client.write_all(&bytes).await.unwrap();
        assert_eq!(read::<7>(&mut client).await, [21, 3, 3, 0, 2, 2, 112]);
    }
    assert_eq!(proxy.handle.stats().refused, 3);
}

#[tokio::test]
async fn the_same_bounds_hold() {
    let address = upstream(|mut stream| async move { while stream.write_all(&[b'x'; 4096]).await.is_ok() {} }).await;
    let proxy = Proxy::open(Policy::open("t"), &[address], |policy| policy.limits.total_bytes = Some(100_000));
    let (mut client, _) = ask(&proxy, &to_name("a.test", address.port())).await;
    let mut received = Vec::new();
    client.read_to_end(&mut received).await.unwrap();
    assert!((99_000..100_000 + 1024 * 1024).contains(&received.len()), "{}", received.len());
    let mut client = proxy.client().await;
    client.write_all(GREETING).await.unwrap();
    assert_eq!(read::<2>(&mut client).await, [5, 0xff], "the bytes are used up");

    let head = Duration::from_millis(300);
    let proxy = Proxy::open(Policy::open("t"), &[], |policy| policy.limits.head = head);
    let started = Instant::now();
    let (mut reader, mut writer) = proxy.client().await.into_split();
    let drip = tokio::spawn(async move {
        for byte in [GREETING, &to_name(&"a".repeat(60), 80)].concat() {
            if writer.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut answer = Vec::new();
    // A reset after the answer is an end like another.
    let _ = reader.read_to_end(&mut answer).await;
    assert_eq!(answer[..4], [5, 0, 5, 1], "agreed on the method, and gave up");
    assert!(started.elapsed() >= head && started.elapsed() < head * 5);
    drip.abort();
}
