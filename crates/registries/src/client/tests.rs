//! The client against a registry that says what a test wants.

use std::collections::BTreeMap;
use std::sync::Mutex;

use stead_outbound::{Deadlines, HostAddresses, SystemResolver};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Answers by path: status, further head lines, body.
type Script = BTreeMap<&'static str, (u16, String, Vec<u8>)>;

/// A registry on loopback.
struct Registry {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (script, kept) = (Arc::new(script), Arc::clone(&heads));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&script), Arc::clone(&kept)));
            }
        });
        Self { port, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    fn client(&self, user: &str) -> RegistryClient {
        client(&format!("http://{user}127.0.0.1:{}/", self.port), &["127.0.0.1"])
    }
}

async fn answer(mut stream: TcpStream, script: Arc<Script>, heads: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    heads.lock().unwrap().push(head);
    let missing = (404, String::new(), Vec::new());
    let (status, lines, body) = script.get(path.as_str()).unwrap_or(&missing);
    let head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n{lines}\r\n", body.len());
    // A client that has read enough goes away.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(body).await;
}

fn client(base: &str, exempt: &[&str]) -> RegistryClient {
    // Somebody else's test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let own = HostAddresses::fixed(Vec::new());
    let dialer = Dialer::new(Arc::new(SystemResolver::default()), own, Deadlines::default());
    let config = RegistryConfig {
        python_index: Some(format!("{base}simple/")),
        python_default: || None,
        npm_registry: Some(base.to_owned()),
        registry_hosts: exempt.iter().map(|&host| host.to_owned()).collect(),
        ca_bundle: None,
    };
    RegistryClient::open(config, Arc::new(dialer)).unwrap()
}

async fn check(client: &RegistryClient, manager: PackageManager, spec: &str) -> Checked {
    client.check(&PackageSpec::parse(manager, spec).unwrap()).await
}

fn typed(media_type: &str, body: &str) -> (u16, String, Vec<u8>) {
    (200, format!("content-type: {media_type}\r\n"), body.as_bytes().to_vec())
}

const PAGE: &str = r#"<a href="../foo_bar-1.0-py3-none-any.whl">x</a><a href="foo_bar-1.1.tar.gz">x</a>"#;
const JSON_PAGE: &str = r#"{"files":[{"filename":"baz-2.0.tar.gz","yanked":false}]}"#;
const DOCUMENT: &str = r#"{"dist-tags":{"latest":"1.2.3"},"versions":{"1.2.3":{},"1.3.0-rc.1":{}}}"#;

#[tokio::test]
async fn registries_are_asked_once_as_their_user_and_only_there() {
    use PackageManager::{Npm, Pip};
    let elsewhere = Registry::start(BTreeMap::from([("/moved", typed("text/html; charset=UTF-8", PAGE))])).await;
    let away = format!("location: http://127.0.0.1:{}/moved\r\n", elsewhere.port);
    let registry = Registry::start(BTreeMap::from([
        ("/simple/foo-bar/", (302, away, Vec::new())),
        ("/simple/baz/", typed("application/vnd.pypi.simple.v1+json", JSON_PAGE)),
        ("/@s%2Fname", typed("application/vnd.npm.install-v1+json", DOCUMENT)),
    ]))
    .await;
    let client = registry.client("me:hunter2@");
    let found = check(&client, Pip, "Foo.Bar==1.0.0").await;
    let expected = |latest: &str, version: Option<&str>, fitting: &str| Checked {
        exists: Some(true),
        latest: Some(latest.to_owned()),
        version: version.map(str::to_owned),
        fitting: Some(fitting.to_owned()),
        error: None,
    };
    assert_eq!(found, expected("1.1", Some("1.0"), "1.0"));
    // The same package under another spelling, from memory.
    assert_eq!(check(&client, Pip, "foo-bar<1.1").await, expected("1.1", None, "1.0"));
    assert_eq!(check(&client, Pip, "baz").await, expected("2.0", None, "2.0"));
    assert_eq!(check(&client, Npm, "@s/name@1.3.0-rc.1").await, expected("1.2.3", Some("1.3.0-rc.1"), "1.3.0-rc.1"));
    let unfit = check(&client, Npm, "@s/name@^2").await;
    assert_eq!((unfit.exists, unfit.version, unfit.fitting), (Some(true), None, None));
    assert_eq!(unfit.error.as_deref(), Some("no published version fits `@^2`"));
    assert_eq!(check(&client, Npm, "nothing").await, Checked::unknown());
    assert_eq!(check(&client, Npm, "nothing@1").await, Checked::unknown());

    let (asked, moved) = (registry.heads(), elsewhere.heads());
    assert_eq!((asked.len(), moved.len()), (4, 1), "{asked:?}");
    assert!(asked.iter().all(|head| head.contains("authorization: Basic bWU6aHVudGVyMg==")), "{asked:?}");
    assert!(!moved[0].contains("authorization"), "{moved:?}");
    assert!(asked[0].contains(python::ACCEPT) && asked[2].contains(node::ACCEPT));
}

#[tokio::test]
async fn what_cannot_be_asked_is_not_said_to_be_missing() {
    use PackageManager::Npm;
    let to_metadata = "location: http://169.254.169.254/latest\r\n".to_owned();
    let registry = Registry::start(BTreeMap::from([
        ("/broken", (503, String::new(), Vec::new())),
        ("/private", (401, String::new(), Vec::new())),
        ("/loop", (301, "location: /loop\r\n".to_owned(), Vec::new())),
        ("/nowhere", (301, String::new(), Vec::new())),
        ("/metadata", (302, to_metadata, Vec::new())),
        ("/huge", (200, String::new(), vec![b' '; (32 << 20) + 1])),
        ("/page", typed("text/html", "<html>please log in</html>")),
    ]))
    .await;
    let known = registry.client("");
    let unnamed = client(&format!("http://me:hunter2@127.0.0.1:{}/", registry.port), &[]);
    let unresolved = client("http://me:hunter2@localhost:1/", &[]);
    let closed = client("http://me:hunter2@localhost:1/", &["localhost"]);
    for (client, spec, why) in [
        (&known, "broken", "the registry answered with status 503"),
        (&known, "private", "the registry does not accept this server's credentials"),
        (&known, "loop", "the registry's answer leads nowhere"),
        (&known, "nowhere", "the registry's answer leads nowhere"),
        (&known, "metadata", "the address of the registry may not be reached from this server"),
        (&known, "huge", "the registry's answer is too large"),
        (&known, "page", "the registry's answer cannot be read"),
        (&unnamed, "any", "the address of the registry may not be reached from this server"),
        (&unresolved, "any", "the address of the registry may not be reached from this server"),
        (&closed, "any", "the registry does not answer"),
    ] {
        assert_eq!(check(client, Npm, spec).await, Checked::unasked(why), "{spec}");
    }
    // A failure is asked about again.
    check(&known, Npm, "broken").await;
    assert_eq!(registry.heads().iter().filter(|head| head.starts_with("GET /broken ")).count(), 2);
    let nothing = RegistryClient::open(
        RegistryConfig {
            python_index: None,
            python_default: || None,
            npm_registry: None,
            registry_hosts: Vec::new(),
            ca_bundle: None,
        },
        Arc::new(Dialer::system(Vec::new())),
    );
    let said = check(&nothing.unwrap(), PackageManager::Pip, "a").await;
    assert_eq!(said, Checked::unasked("this server knows no registry for packages of this kind"));
}

#[tokio::test]
async fn a_registry_that_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = client(&format!("http://{}/", listener.local_addr().unwrap()), &["127.0.0.1"]);
    client.patience = Duration::from_millis(100);
    let silent = check(&client, PackageManager::Npm, "a").await;
    assert_eq!(silent, Checked::unasked("the registry did not answer in time"));
    // Nobody's place is free, so the next one is not even asked for.
    let places = client.places.acquire_many(AT_ONCE as u32).await.unwrap();
    let busy = check(&client, PackageManager::Npm, "a").await;
    assert_eq!(busy, Checked::unasked("too many packages are being checked; ask again in a moment"));
    drop(places);
}
