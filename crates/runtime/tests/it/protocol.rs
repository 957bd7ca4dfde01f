//! What an unkind peer is told.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use stead_link::frame::{self, WINDOW};
use stead_link::{Client, ErrorCode, Frame, GENERATION, Kind, LinkError, Reply, Request, Token};

use crate::runtime::{Runtime, TOKEN, script};

/// A peer that speaks frames itself.
pub(crate) struct Raw {
    pub(crate) socket: UnixStream,
    input: Vec<u8>,
}

impl Raw {
    pub(crate) fn dial(runtime: &Runtime) -> Self {
        let socket = UnixStream::connect(&runtime.socket).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        Self { socket, input: Vec::new() }
    }

    pub(crate) fn welcome(runtime: &Runtime) -> Self {
        Self::of_generation(runtime, GENERATION + 1)
    }

    /// A server whose newest generation is this one.
    pub(crate) fn of_generation(runtime: &Runtime, newest: u32) -> Self {
        let mut raw = Self::dial(runtime);
        raw.request(0, &Request::Hello { generation: newest, token: Token::new(TOKEN) });
        let Some((0, Reply::Welcome { generation, .. })) = raw.reply() else { panic!("no welcome") };
        assert_eq!(generation, newest.min(GENERATION));
        raw
    }

    pub(crate) fn frame(&mut self, kind: Kind, stream: u32, payload: &[u8]) {
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, Frame { kind, stream, payload }).unwrap();
        self.socket.write_all(&bytes).unwrap();
    }

    pub(crate) fn request(&mut self, stream: u32, request: &Request) {
        self.frame(Kind::Message, stream, &serde_json::to_vec(request).unwrap());
    }

    /// The next message, or `None` at the end.
    pub(crate) fn reply(&mut self) -> Option<(u32, Reply)> {
        loop {
            if let Some((frame, used)) = frame::decode(&self.input).unwrap() {
                let message = (frame.kind == Kind::Message)
                    .then(|| (frame.stream, serde_json::from_slice(frame.payload).unwrap()));
                self.input.drain(..used);
                match message {
                    Some(message) => return Some(message),
                    None => continue,
                }
            }
            let mut bytes = [0; 4096];
            match self.socket.read(&mut bytes) {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.input.extend_from_slice(&bytes[..read]),
            }
        }
    }

    pub(crate) fn error(&mut self) -> (u32, ErrorCode) {
        match self.reply() {
            Some((stream, Reply::Error { code, .. })) => (stream, code),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn only_the_token_opens() {
    let runtime = Runtime::start();
    let wrong = Client::connect(&runtime.socket, &Token::new("another")).await.unwrap_err();
    assert_eq!(wrong.code(), Some(ErrorCode::Unauthorized));
    let mut raw = Raw::dial(&runtime);
    raw.request(1, &Request::Ping {});
    assert_eq!(raw.error(), (0, ErrorCode::Unauthorized));
    assert!(raw.reply().is_none(), "closed");
    let mut raw = Raw::dial(&runtime);
    raw.frame(Kind::Data, 1, b"x");
    assert_eq!(raw.error(), (0, ErrorCode::Unauthorized));
    runtime.client().await.ping().await.unwrap();
}

#[tokio::test]
async fn what_is_not_known_is_answered_and_the_connection_goes_on() {
    let runtime = Runtime::start();
    let mut raw = Raw::welcome(&runtime);
    raw.frame(Kind::Message, 5, br#"{"type":"freeze","since":3}"#);
    assert_eq!(raw.error(), (5, ErrorCode::UnknownMessage));
    raw.frame(Kind::Message, 6, br#"{"type":"exec"}"#);
    assert_eq!(raw.error(), (6, ErrorCode::Malformed));
    raw.frame(Kind::Message, 7, b"\xff\xfe");
    assert_eq!(raw.error(), (7, ErrorCode::Malformed));
    raw.frame(Kind::Unknown(77), 8, b"from a later generation");
    assert_eq!(raw.error(), (8, ErrorCode::UnknownMessage));
    raw.frame(Kind::Data, 9, b"for a stream that is not there");
    raw.request(0, &Request::List { root: "/".to_owned(), max_entries: 1 });
    assert_eq!(raw.error(), (0, ErrorCode::BadStream));
    raw.request(10, &Request::Ping {});
    assert_eq!(raw.reply(), Some((10, Reply::Pong {})));
}

#[tokio::test]
async fn hostile_frames_end_the_connection_alone() {
    let runtime = Runtime::start();
    let mut long = Raw::welcome(&runtime);
    long.socket.write_all(&[0xff; 9]).unwrap();
    assert_eq!(long.error(), (0, ErrorCode::Malformed));
    assert!(long.reply().is_none());
    let mut greedy = Raw::welcome(&runtime);
    greedy.request(1, &Request::Write { root: runtime.root(), path: "f".to_owned(), executable: false });
    // Credit comes back for a write as fast as it is taken, so only a command that does not read shows the limit.
    let spec = serde_json::json!({"type": "exec", "program": {"argv": ["/bin/sleep", "987.821"]}, "env": {}, "cwd": "/", "stdin": "open"});
    greedy.frame(Kind::Message, 2, &serde_json::to_vec(&spec).unwrap());
    // What a pipe holds (64 KiB) is used up; the rest is the window, and one more.
    for _ in 0..=(WINDOW + 64 * 1024) / frame::MAX_CHUNK {
        greedy.frame(Kind::Data, 2, &vec![0; frame::MAX_CHUNK]);
    }
    loop {
        match greedy.reply() {
            Some((0, Reply::Error { code, .. })) => {
                assert_eq!(code, ErrorCode::CreditExceeded);
                break;
            }
            Some(_) => {}
            None => panic!("no reason was given"),
        }
    }
    runtime.client().await.ping().await.unwrap();
}

#[tokio::test]
async fn a_runtime_that_dies_ends_every_stream_with_an_error() {
    let mut runtime = Runtime::start();
    let client = runtime.client().await;
    let exec = client.exec(script("sleep 987.831")).await.unwrap();
    let listing = client.files().list("/proc/sys", 10).unwrap();
    drop(listing);
    runtime.child.kill().unwrap();
    let error = exec.collect(100).await.unwrap_err();
    assert!(matches!(error, LinkError::Disconnected { .. }), "{error}");
    assert!(matches!(client.ping().await, Err(LinkError::Disconnected { .. })));
    // The supervisor has seen it, too.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(crate::runtime::running(&["sleep 987.831"]), Vec::<String>::new());
}
