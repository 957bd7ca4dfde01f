//! A proxy with a scripted name server, upstreams that record what they are sent, and a raw client.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stead_egress::{Egress, EgressHandle, HostName, Policy, PortRule};
use stead_outbound::{Deadlines, Dialer, HostAddresses, Resolver, Resolving};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

/// Names and the answers they get, one per question; the last answer repeats, and other names are 127.0.0.1. An empty answer
/// is a name that does not exist.
#[derive(Default)]
pub(crate) struct Script {
    answers: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    questions: Mutex<Vec<String>>,
    silent: Mutex<HashSet<String>>,
}

impl Script {
    /// One address for each question.
    pub(crate) fn answer(&self, name: &str, addresses: &[&str]) {
        let answers = addresses.iter().map(|text| vec![text.parse().unwrap()]).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), answers);
    }

    /// The same addresses, all of them, for every question.
    pub(crate) fn answer_all(&self, name: &str, addresses: &[&str]) {
        let answer = addresses.iter().map(|text| text.parse().unwrap()).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), VecDeque::from([answer]));
    }

    /// No answer at all.
    pub(crate) fn never(&self, name: &str) {
        self.silent.lock().unwrap().insert(name.to_owned());
    }

    pub(crate) fn questions(&self) -> Vec<String> {
        self.questions.lock().unwrap().clone()
    }
}

impl Resolver for Script {
    fn resolve<'a>(&'a self, name: &'a HostName) -> Resolving<'a> {
        self.questions.lock().unwrap().push(name.to_string());
        if self.silent.lock().unwrap().contains(name.as_str()) {
            return Box::pin(std::future::pending());
        }
        let mut answers = self.answers.lock().unwrap();
        let answer = match answers.get_mut(name.as_str()) {
            Some(answers) if answers.len() > 1 => answers.pop_front(),
            Some(answers) => answers.front().cloned(),
            None => Some(vec![Ipv4Addr::LOCALHOST.into()]),
        };
        Box::pin(async move { answer.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

/// What was logged.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Log {
    /// Keeps what this thread logs, until the guard is dropped.
    pub(crate) fn keep(&self) -> tracing::subscriber::DefaultGuard {
        let lines = self.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || lines.clone()).finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// Waits until the log has the text so many times: a line may be written after the answer has gone out.
    pub(crate) async fn wait_for(&self, text: &str, times: usize) {
        for _ in 0..500 {
            if self.text().matches(text).count() >= times {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not {times} times {text:?} in {}", self.text());
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A public address of the machine that the tests think they run on.
pub(crate) const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(8, 8, 4, 4);

/// A dialer of that machine.
pub(crate) fn dialer(script: Arc<Script>) -> Dialer {
    let deadlines = Deadlines { resolve: Duration::from_secs(1), connect: Duration::from_secs(1) };
    Dialer::new(script, HostAddresses::fixed(vec![OWN_ADDRESS.into()]), deadlines)
}

pub(crate) struct Proxy {
    pub(crate) handle: EgressHandle,
    pub(crate) script: Arc<Script>,
    directory: tempfile::TempDir,
}

impl Proxy {
    /// Opens a proxy; `upstreams` are the loopback endpoints it may reach, any port is open unless the change says so.
    pub(crate) fn open(mut policy: Policy, upstreams: &[SocketAddr], change: impl FnOnce(&mut Policy)) -> Self {
        policy.ports = PortRule::Any;
        policy.extra_allowed = upstreams.to_vec();
        change(&mut policy);
        let script = Arc::new(Script::default());
        let dialer = dialer(script.clone());
        let directory = tempfile::tempdir().unwrap();
        let handle = Egress::new(Arc::new(dialer)).open(directory.path().join("egress.sock"), policy).unwrap();
        Self { handle, script, directory }
    }

    pub(crate) async fn client(&self) -> UnixStream {
        UnixStream::connect(self.directory.path().join("egress.sock")).await.unwrap()
    }

    /// Sends bytes on a connection of their own and returns all that comes back.
    pub(crate) async fn ask(&self, request: &str) -> String {
        let mut client = self.client().await;
        client.write_all(request.as_bytes()).await.unwrap();
        read_all(&mut client).await
    }
}

/// Reads to the end, which must come soon. A reset after data counts as the end.
pub(crate) async fn read_all<S: AsyncReadExt + Unpin>(stream: &mut S) -> String {
    let mut bytes = Vec::new();
    let reading = stream.read_to_end(&mut bytes);
    match tokio::time::timeout(Duration::from_secs(5), reading).await.expect("the stream should have ended") {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until the text ends as expected.
pub(crate) async fn read_until<S: AsyncReadExt + Unpin>(stream: &mut S, end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        let read = tokio::time::timeout(Duration::from_secs(5), stream.read_buf(&mut bytes)).await;
        let read = read.unwrap_or_else(|_| panic!("no {end:?} in {:?}", String::from_utf8_lossy(&bytes))).unwrap();
        assert_ne!(read, 0, "no {end:?} in {:?}", String::from_utf8_lossy(&bytes));
    }
    String::from_utf8(bytes).unwrap()
}

/// An upstream: runs `serve` on each connection.
pub(crate) async fn upstream<F, S>(serve: S) -> SocketAddr
where
    S: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// An upstream that records each request up to `end` and gives a fixed answer.
pub(crate) async fn answering(end: &'static str, answer: &'static str) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let address = upstream(move |mut stream| {
        let record = Arc::clone(&record);
        async move {
            let request = read_until(&mut stream, end).await;
            record.lock().unwrap().push(request);
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    (address, seen)
}

/// The code of a refusal, after checking that the answer is one.
pub(crate) fn refusal(answer: &str) -> &str {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {answer:?}"));
    assert!(head.contains("\r\nConnection: close"), "{head}");
    assert_eq!(body.matches('\n').count(), 1, "{body:?}");
    let field = head.lines().find_map(|line| line.strip_prefix("X-Stead-Egress: ")).unwrap_or_else(|| panic!("{head}"));
    field.strip_prefix("refused ").or_else(|| field.strip_prefix("failed ")).unwrap()
}
