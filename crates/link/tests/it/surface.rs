//! Each generation has a file with a sample of every message. A peer of that generation must be able to read what is written
//! today, so a file never changes once its generation has shipped: what is new goes into the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;
use serde::de::DeserializeOwned;
use stead_link::frame::{HEADER_LEN, MAX_PAYLOAD};
use stead_link::{
    ErrorCode, ExecRequest, ExitReason, ExitReport, FileEntry, FileInfo, Frame, GENERATION, Kind, NAME_BYTES, Program,
    Reply, Request, StdinMode, Token, frame,
};

const FROZEN: [&str; 2] = [include_str!("../generation-1.txt"), include_str!("../generation-2.txt")];

/// What generation 2 added.
fn later_requests() -> Vec<Request> {
    let name = "turn_1".to_owned();
    let exec = ExecRequest {
        name: Some(name.clone()),
        program: Program::Argv(vec!["ls".to_owned()]),
        env: BTreeMap::new(),
        cwd: "/".to_owned(),
        stdin: StdinMode::None,
        time_limit_ms: None,
        output_limit_bytes: None,
    };
    vec![
        Request::Exec(exec),
        Request::Adopt { name, from: 5 },
        Request::Acknowledge { bytes: 5_000_000_000, end: false },
        Request::Acknowledge { bytes: 7, end: true },
        Request::Detach {},
    ]
}

/// What generation 2 added.
fn later_replies() -> Vec<Reply> {
    let codes = [ErrorCode::UnknownCommand, ErrorCode::BadName, ErrorCode::OutOfRange, ErrorCode::TakenOver];
    let errors = codes.map(|code| Reply::Error { code, message: "why".to_owned() });
    [Reply::Adopted { output_bytes: 7 }, Reply::Forgotten {}].into_iter().chain(errors).collect()
}

fn requests() -> Vec<Request> {
    let (root, path) = ("/workspace".to_owned(), "a/b".to_owned());
    let script = ExecRequest {
        name: None,
        program: Program::Script { length: 12 },
        env: BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]),
        cwd: "/workspace".to_owned(),
        stdin: StdinMode::Open,
        time_limit_ms: Some(3000),
        output_limit_bytes: Some(1_000_000),
    };
    let argv = ExecRequest {
        program: Program::Argv(vec!["ls".to_owned(), "-l".to_owned()]),
        stdin: StdinMode::None,
        time_limit_ms: None,
        output_limit_bytes: None,
        ..script.clone()
    };
    vec![
        Request::Hello { generation: 1, token: Token::new("secret") },
        Request::Exec(script),
        Request::Exec(argv),
        Request::Signal { signal: 15 },
        Request::Kill {},
        Request::DataEnd {},
        Request::Credit { bytes: 65536 },
        Request::Cancel {},
        Request::List { root: root.clone(), max_entries: 100 },
        Request::Read { root: root.clone(), path: path.clone(), offset: 5, length: 10 },
        Request::Write { root, path, executable: true },
        Request::KillAll {},
        Request::Ping {},
        Request::Shutdown {},
    ]
}

fn replies() -> Vec<Reply> {
    let info = FileInfo { size: 3, mtime_ns: 1, ctime_ns: 2, inode: 4, nlink: 1, executable: false };
    let exited =
        |code, signal, reason| ExitReport { code, signal, reason, cpu_ms: Some(10), output_bytes: 7, survivors: 0 };
    let entry = |lossy| FileEntry { path: "a/b".to_owned(), lossy, info: info.clone() };
    let error = |code| Reply::Error { code, message: "why".to_owned() };
    let mut replies = vec![
        Reply::Welcome { generation: 1, runtime_version: "0.1.0".to_owned(), pid: 1 },
        Reply::Started { pid: 3 },
        Reply::Exited(exited(Some(0), None, ExitReason::Exited)),
        Reply::Exited(exited(None, Some(11), ExitReason::Signalled)),
        Reply::Exited(exited(None, Some(9), ExitReason::TimeLimit)),
        Reply::Exited(exited(None, Some(9), ExitReason::OutputLimit)),
        Reply::Exited(exited(None, Some(9), ExitReason::Killed)),
        Reply::Exited(ExitReport { cpu_ms: None, ..exited(None, None, ExitReason::Lost) }),
        Reply::Credit { bytes: 65536 },
        Reply::Entries { entries: vec![entry(false), entry(true)] },
        Reply::Listed { incomplete: false },
        Reply::Opened(info.clone()),
        Reply::DataEnd {},
        Reply::Written { size: 3 },
        Reply::KilledAll { survivors: 0 },
        Reply::Pong {},
        Reply::Cancelled {},
        Reply::Bye {},
    ];
    replies.extend(
        [
            ErrorCode::Unauthorized,
            ErrorCode::UnknownMessage,
            ErrorCode::Malformed,
            ErrorCode::BadStream,
            ErrorCode::CreditExceeded,
            ErrorCode::Limit,
            ErrorCode::SpawnFailed,
            ErrorCode::NotFound,
            ErrorCode::PathRefused,
            ErrorCode::NotAFile,
            ErrorCode::Io,
        ]
        .map(error),
    );
    replies
}

fn render() -> String {
    let mut text = String::from("generation 1\n\nframes\n");
    for kind in [Kind::Message, Kind::Data, Kind::DataError] {
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, Frame { kind, stream: 0x0102_0304, payload: b"{}" }).unwrap();
        write!(text, "{kind:?} ").unwrap();
        for byte in bytes {
            write!(text, "{byte:02x}").unwrap();
        }
        text.push('\n');
    }
    let constants = (HEADER_LEN, MAX_PAYLOAD, frame::MAX_CHUNK, frame::FRAME_COST, frame::WINDOW);
    writeln!(text, "header, longest payload, chunk, cost, window: {constants:?}").unwrap();
    messages(&mut text, &requests(), &replies());
    text
}

fn messages(text: &mut String, requests: &[Request], replies: &[Reply]) {
    text.push_str("\nserver to runtime\n");
    for request in requests {
        writeln!(text, "{}", serde_json::to_string(request).unwrap()).unwrap();
    }
    text.push_str("\nruntime to server\n");
    for reply in replies {
        writeln!(text, "{}", serde_json::to_string(reply).unwrap()).unwrap();
    }
}

fn render_later() -> String {
    let mut text = format!("generation 2, besides generation 1\n\nlongest name: {NAME_BYTES}\n");
    messages(&mut text, &later_requests(), &later_replies());
    text
}

#[test]
fn the_surface_of_each_generation_is_frozen() {
    assert_eq!(GENERATION, 2, "a new generation needs a file of its own, and these keep their samples");
    assert!(requests().iter().all(|request| request.introduced() == 1));
    assert!(later_requests()[1..].iter().all(|request| request.introduced() == 2));
    for (rendered, frozen) in [render(), render_later()].iter().zip(FROZEN) {
        assert_eq!(rendered, frozen, "\n--- as it is now:\n{rendered}");
    }
}

#[test]
fn every_message_is_read_back_as_it_was_written() {
    fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(messages: Vec<T>) -> BTreeSet<String> {
        let names = messages.into_iter().map(|message| {
            let mut value = serde_json::to_value(&message).unwrap();
            value["from_a_later_generation"] = serde_json::json!([1]);
            assert_eq!(serde_json::from_value::<T>(value.clone()).unwrap(), message);
            value["type"].as_str().unwrap().to_owned()
        });
        names.collect()
    }
    let names = check(requests().into_iter().chain(later_requests()).collect());
    assert_eq!(names, Request::TYPES.map(str::to_owned).into());
    check(replies().into_iter().chain(later_replies()).collect());
}

#[test]
fn words_of_later_generations_are_understood_as_such() {
    let exited = r#"{"type":"exited","reason":"frozen"}"#;
    assert!(
        matches!(serde_json::from_str(exited).unwrap(), Reply::Exited(report) if report.reason == ExitReason::Other)
    );
    let error = r#"{"type":"error","code":"too_warm","message":""}"#;
    assert!(matches!(serde_json::from_str(error).unwrap(), Reply::Error { code: ErrorCode::Other, .. }));
}
