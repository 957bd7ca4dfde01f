//! Disabled and enabled networks.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use stead_domain::network::NetworkPolicy;
use stead_domain::ports::{BuildNetwork, BuildSandboxes, Endpoint, Provider, StartSpec};
use stead_domain::{EnvironmentId, OperationId, WorkspaceId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::builds::build;
use crate::fixture::{Fixture, Ids, known, plain, run};

/// A site on this machine that says hello to everyone, and at `/slow` more and more.
pub(crate) async fn site() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read(&mut byte).await.unwrap_or(0) == 0 {
                        return;
                    }
                    head.push(byte[0]);
                }
                if head.starts_with(b"GET /slow") {
                    let begin = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
                    let mut sent = stream.write_all(begin).await;
                    while sent.is_ok() {
                        sent = stream.write_all(b"more\n").await;
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    return;
                }
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    address
}

/// Asks for an address with and without the proxy, and says what came of it.
pub(crate) fn fetch(url: &str) -> String {
    format!(
        "python3 - <<'END'
import urllib.request, urllib.error
for proxies in ({{'http': 'http://127.0.0.1:3128'}}, {{}}):
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
        print(opener.open('{url}', timeout=5).read().decode().strip())
    except urllib.error.HTTPError as error: print(error.code)
    except OSError as error: print('refused')
END"
    )
}

#[tokio::test]
async fn the_proxy_is_the_only_way_out() {
    let (allowed, other) = (site().await, site().await);
    let mut fixture = Fixture::new();
    fixture.config.extra_allowed = vec![allowed];
    let provider = fixture.open();
    let (environment, workspace) = (EnvironmentId::new(&Ids), WorkspaceId::new(&Ids));
    let enabled = StartSpec { network: NetworkPolicy::Enabled, ..plain() };
    known(provider.create(OperationId::new(&Ids), environment, workspace, &enabled).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    assert_eq!(run(&*runtime, &fetch(&format!("http://{allowed}/"))).await.stdout, "hello\nrefused\n");
    assert_eq!(run(&*runtime, &fetch(&format!("http://{other}/"))).await.stdout, "403\nrefused\n");
    assert_eq!(run(&*runtime, &fetch("http://169.254.169.254/")).await.stdout, "403\nrefused\n");

    known(provider.start(OperationId::new(&Ids), environment, workspace, &plain()).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    assert_eq!(run(&*runtime, &fetch(&format!("http://{allowed}/"))).await.stdout, "refused\nrefused\n");
    assert_eq!(
        run(&*runtime, "ls /run; ls /sys/class/net 2>/dev/null; cat /proc/net/route | wc -l").await.stdout,
        "1\n"
    );
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
}

#[tokio::test]
async fn registries_are_for_builds_alone() {
    let registry = site().await;
    let mut fixture = Fixture::new();
    // By name: the exemption is for what was asked, not for an address.
    fixture.config.registry_hosts = BTreeSet::from([format!("localhost:{}", registry.port())]);
    let provider = fixture.open();
    let url = format!("http://localhost:{}/", registry.port());

    let mut spec = build(&fixture);
    spec.network = BuildNetwork::Enabled(BTreeSet::new());
    let sandbox = BuildSandboxes::open(&provider, spec).await.unwrap();
    let ran = run(&*sandbox.runtime(), &fetch(&url)).await.stdout;
    assert_eq!(ran, "hello\nrefused\n");
    sandbox.close().await.unwrap();

    let environment = EnvironmentId::new(&Ids);
    let enabled = StartSpec { network: NetworkPolicy::Enabled, ..plain() };
    known(provider.create(OperationId::new(&Ids), environment, WorkspaceId::new(&Ids), &enabled).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    assert_eq!(run(&*runtime, &fetch(&url)).await.stdout, "403\nrefused\n");
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
}

#[tokio::test]
async fn one_host_is_all_that_an_import_reaches() {
    let (declared, other) = (site().await, site().await);
    let fixture = Fixture::new();
    let provider = fixture.open();
    let endpoint = |host: &str, allowed| Endpoint {
        host: host.to_owned(),
        ports: vec![declared.port()],
        allowed,
        total_bytes: 1 << 20,
    };
    let code = async |endpoint: Endpoint| provider.probe(&endpoint).await.err().map(|error| error.code);
    assert_eq!(code(endpoint("127.0.0.1", false)).await.as_deref(), Some("host_denied"));
    assert_eq!(code(endpoint("169.254.169.254", true)).await.as_deref(), Some("host_closed"));
    assert_eq!(code(endpoint("127.1", true)).await.as_deref(), Some("host_invalid"));
    assert_eq!(code(endpoint("127.0.0.1", true)).await, None);
    let closed = Endpoint { ports: vec![1], ..endpoint("127.0.0.1", true) };
    assert_eq!(code(closed).await.as_deref(), Some("host_unreachable"));

    let mut spec = build(&fixture);
    spec.network = BuildNetwork::Only(endpoint("127.0.0.1", true));
    let sandbox = BuildSandboxes::open(&provider, spec).await.unwrap();
    let runtime = sandbox.runtime();
    assert_eq!(run(&*runtime, &fetch(&format!("http://{declared}/"))).await.stdout, "hello\nrefused\n");
    for wrong in [format!("http://{other}/"), format!("http://localhost:{}/", declared.port())] {
        assert_eq!(run(&*runtime, &fetch(&wrong)).await.stdout, "470\nrefused\n", "{wrong}");
    }
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_restricted_build_reaches_its_hosts_and_names_those_it_was_refused() {
    let (registry, other) = (site().await, site().await);
    let (port, closed) = (registry.port(), other.port());
    let mut fixture = Fixture::new();
    // The operator exempts the address; a build is given the port with the name, as with the address of a registry.
    fixture.config.registry_hosts = BTreeSet::from(["localhost".to_owned(), "127.0.0.1".to_owned()]);
    let provider = fixture.open();
    let mut spec = build(&fixture);
    spec.network = BuildNetwork::Restricted(BTreeSet::from([format!("localhost:{port}"), "named.invalid".to_owned()]));
    let sandbox = BuildSandboxes::open(&provider, spec).await.unwrap();
    let runtime = sandbox.runtime();
    for url in [format!("http://localhost:{port}/"), format!("http://127.0.0.1:{port}/")] {
        assert_eq!(run(&*runtime, &fetch(&url)).await.stdout, "hello\nrefused\n", "{url}");
    }
    assert_eq!(sandbox.refused_hosts().await, BTreeSet::new());
    for (url, answer) in [
        (format!("http://localhost:{closed}/"), "403\nrefused\n"),
        ("http://other.example/".to_owned(), "403\nrefused\n"),
        ("http://10.0.0.1/".to_owned(), "403\nrefused\n"),
        ("http://named.invalid/".to_owned(), "502\nrefused\n"),
    ] {
        assert_eq!(run(&*runtime, &fetch(&url)).await.stdout, answer, "{url}");
    }
    let refused = ["10.0.0.1", &format!("localhost:{closed}"), "other.example"].map(str::to_owned);
    assert_eq!(sandbox.refused_hosts().await, BTreeSet::from(refused), "one that is not found was not refused");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_restricted_session_reaches_its_names_alone() {
    let (allowed, other) = (site().await, site().await);
    let mut fixture = Fixture::new();
    // The name's address is one of this machine's, so the endpoint is opened as well; the other one stays what it is.
    fixture.config.extra_allowed = vec![allowed];
    let provider = fixture.open();
    let (environment, workspace) = (EnvironmentId::new(&Ids), WorkspaceId::new(&Ids));
    let restricted = |names: &str| StartSpec { network: format!("restricted {names}").parse().unwrap(), ..plain() };
    let spec = restricted("localhost named.example");
    known(provider.create(OperationId::new(&Ids), environment, workspace, &spec).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    let port = allowed.port();
    for (url, answer) in [
        (format!("http://localhost:{port}/"), "hello"),
        (format!("http://LOCALHOST.:{port}/"), "hello"),
        // Not by address, though the name has it; not by another name of it; not another port.
        (format!("http://127.0.0.1:{port}/"), "403"),
        (format!("http://a.localhost:{port}/"), "403"),
        (format!("http://localhost:{}/", other.port()), "403"),
        ("http://other.example/".to_owned(), "403"),
    ] {
        assert_eq!(run(&*runtime, &fetch(&url)).await.stdout, format!("{answer}\nrefused\n"), "{url}");
    }
    // Another policy is another sandbox, with the files of the first.
    run(&*runtime, "echo kept >/workspace/file").await;
    known(provider.start(OperationId::new(&Ids), environment, workspace, &restricted("named.example")).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    let url = format!("http://localhost:{port}/");
    assert_eq!(run(&*runtime, &fetch(&url)).await.stdout, "403\nrefused\n");
    assert_eq!(run(&*runtime, "cat /workspace/file").await.stdout, "kept\n");
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
}

/// A mirror that has no name, for builds that reach registries only.
#[tokio::test]
async fn a_registry_by_address_is_open_to_restricted_builds() {
    let (mirror, other) = (site().await, site().await);
    let mut fixture = Fixture::new();
    fixture.config.registry_hosts = BTreeSet::from([mirror.to_string()]);
    let provider = fixture.open();
    let mut spec = build(&fixture);
    spec.network = BuildNetwork::Restricted(BTreeSet::from(["named.example".to_owned()]));
    let sandbox = BuildSandboxes::open(&provider, spec).await.unwrap();
    let runtime = sandbox.runtime();
    for (url, answer) in [
        (format!("http://{mirror}/"), "hello"),
        (format!("http://localhost:{}/", mirror.port()), "403"),
        (format!("http://127.0.0.2:{}/", mirror.port()), "403"),
        (format!("http://{other}/"), "403"),
    ] {
        assert_eq!(run(&*runtime, &fetch(&url)).await.stdout, format!("{answer}\nrefused\n"), "{url}");
    }
    // A tunnel to it shows no server name, for it has none.
    let tunnel = format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT {mirror} HTTP/1.1\\r\\nHost: {mirror}\\r\\n\\r\\n' >&3
        read -r status <&3; read -r end <&3; printf 'GET / HTTP/1.1\\r\\n\\r\\n' >&3; echo \"$status\"; tail -1 <&3"
    );
    assert_eq!(run(&*runtime, &tunnel).await.stdout, "HTTP/1.1 200 Connection established\r\nhello\n");
    sandbox.close().await.unwrap();
}
