//! Files of projects: what users of other systems ran into, conditions through the client, and bodies larger than memory.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::api::{Api, Framing};
use crate::program::{Ran, ran};
use crate::server::TestServer;

/// The largest file of the servers here, in bytes.
const LARGEST: usize = 64 << 10;

macro_rules! cases {
    ($($name:literal),+) => { [$(($name, include_bytes!(concat!("../../../../tests/field-cases/", $name)) as &[u8])),+] };
}

struct Project {
    api: Api,
    path: String,
}

impl Project {
    fn make(server: &TestServer, name: &str) -> Self {
        let api = Api::of(server);
        let id = api.post("/v1/environments", &json!({"name": name})).ok()["id"].as_str().unwrap().to_owned();
        Self { api, path: format!("/v1/environments/{id}") }
    }

    fn file(&self, path: &str) -> String {
        format!("{}/files/{path}", self.path)
    }

    /// Puts a file and says with which status and code that was answered.
    fn put(&self, path: &str, body: &[u8], framing: Framing) -> (u16, Value) {
        let answer = self.api.open("PUT", &self.file(path), &[], body, framing).unwrap().finish().unwrap();
        (answer.status, answer.json()["error"].clone())
    }

    /// The sizes of what is there; directories have none.
    fn tree(&self) -> BTreeMap<String, Option<u64>> {
        let listed = self.api.get(&format!("{}/files", self.path)).ok();
        let entry = |entry: &Value| {
            let bytes = entry["bytes"].as_u64().filter(|_| entry["dir"] == false);
            (entry["path"].as_str().unwrap().to_owned(), bytes)
        };
        listed["entries"].as_array().unwrap().iter().map(entry).collect()
    }
}

fn server() -> TestServer {
    TestServer::start(&[("limits.file", "64KiB")])
}

fn encoded(name: &str) -> String {
    let escaped: Vec<String> = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    escaped.concat()
}

#[test]
fn any_legal_name_comes_back_as_it_went_in() {
    let server = server();
    let project = Project::make(&server, "Names");
    let text = include_str!("../../../../tests/field-cases/C069-names.json");
    let mut names: Vec<String> = serde_json::from_str(text).unwrap();
    // Both spellings of one accent are names of their own; the longest segment and the longest path.
    names.extend(["e\u{301}.txt".to_owned(), "\u{e9}.txt".to_owned(), "\u{20ac}".repeat(85)]);
    let longest = format!("{}{}", format!("{}/", "x".repeat(199)).repeat(12), "y".repeat(198));
    names.push(longest.clone());
    for name in &names {
        let path = project.file(&format!("d/{}", encoded(name)));
        let put = project.api.send("PUT", &path, &[], name.as_bytes());
        if let Some(control) = name.chars().find(|character| character.is_control()) {
            assert_eq!((put.status, &put.json()["error"]["code"]), (422, &json!("environment_invalid")), "{name:?}");
            let said = format!("U+{:04X}", u32::from(control));
            assert!(put.text().contains(&said), "{}", put.text());
            continue;
        }
        assert_eq!(put.ok()["path"], format!("d/{name}"), "{name}");
        assert_eq!(project.api.get(&path).text(), *name);
        assert_eq!(project.tree().get(&format!("d/{name}")), Some(&Some(name.len() as u64)), "{name}");
        project.api.delete(&path).ok();
        assert!(!project.tree().contains_key(&format!("d/{name}")), "{name}");
    }
    let long = [
        format!("d/{}", "x".repeat(256)),
        format!("d/{longest}y"),
        format!("{}x", "d/".repeat(128)),
        "%FF".to_owned(),
        "a%C3".to_owned(),
    ];
    for path in long {
        assert_eq!(project.put(&path, b"x", Framing::Length).1["code"], "environment_invalid", "{path}");
    }
}

#[test]
fn no_spelling_of_a_path_leaves_the_source() {
    let server = server();
    let project = Project::make(&server, "Paths");
    assert_eq!(project.put("keep/me.txt", b"kept", Framing::Length).0, 200);
    let before = project.tree();
    let text = include_str!("../../../../tests/field-cases/C070-paths.json");
    for path in serde_json::from_str::<Vec<String>>(text).unwrap() {
        for method in ["GET", "PUT", "PATCH", "DELETE"] {
            let answer = project.api.send(method, &project.file(&path), &[], b"{\"executable\":true}");
            assert_eq!(
                (answer.status, &answer.json()["error"]["code"]),
                (422, &json!("environment_invalid")),
                "{method} {path}"
            );
        }
    }
    assert_eq!(project.tree(), before);
}

#[test]
fn bytes_are_kept_as_sent_whatever_their_type_is_called() {
    let server = server();
    let project = Project::make(&server, "Bytes");
    let types = [
        None,
        Some("application/json"),
        Some("text/plain; charset=utf-16"),
        Some("multipart/form-data; boundary=x"),
        Some("application/x-www-form-urlencoded"),
    ];
    for (name, bytes) in cases!(
        "C072-empty.bin",
        "C072-nul.bin",
        "C072-all.bin",
        "C072-crlf.txt",
        "C072-bom.txt",
        "C072-nonl.txt",
        "C072-latin1.txt",
        "C072-gz.txt",
        "C072-json.json",
        "C072-multi.txt"
    ) {
        for (number, media_type) in types.iter().enumerate() {
            let path = format!("{number}/{name}");
            let headers: Vec<_> = media_type.iter().map(|media_type| ("Content-Type", *media_type)).collect();
            project.api.send("PUT", &project.file(&path), &headers, bytes).ok();
            let read = project.api.get(&project.file(&path));
            assert_eq!((read.status, &read.body[..]), (200, bytes), "{path}");
            assert_eq!(read.header("content-length"), Some(bytes.len().to_string().as_str()), "{path}");
            assert_eq!(project.tree()[&path], Some(bytes.len() as u64), "{path}");
        }
    }
}

#[test]
fn limits_and_clashes_leave_what_was_there() {
    let server = server();
    let project = Project::make(&server, "Limits");
    assert_eq!(project.put("big", b"old", Framing::Length).0, 200);
    for framing in [Framing::Length, Framing::Chunked] {
        let (status, error) = project.put("big", &vec![0; LARGEST + 1], framing);
        assert_eq!((status, &error["code"]), (413, &json!("file_too_large")), "{framing:?}");
        assert_eq!(error["detail"]["max_bytes"], LARGEST);
    }
    assert_eq!(project.api.get(&project.file("big")).body, b"old");
    // Refused by what it says of itself: none of it has to come.
    let address = server.url().trim_start_matches("http://");
    let mut connection = TcpStream::connect(address).unwrap();
    let (path, key) = (project.file("big"), project.api.key());
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\nContent-Length: 1099511627776\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).unwrap();
    let mut line = [0; 12];
    connection.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"HTTP/1.1 413");
    assert_eq!(project.put("edge", &vec![7; LARGEST], Framing::Chunked).0, 200);
    assert_eq!(project.tree()["edge"], Some(LARGEST as u64));

    let made = |path: &str| {
        let answer = project.api.post(&format!("{}/directories", project.path), &json!({"path": path}));
        (answer.status, answer.json()["error"]["code"].clone())
    };
    let invalid = json!("environment_invalid");
    assert_eq!(project.put("f", b"x", Framing::Length).0, 200);
    assert_eq!(project.put("f/child", b"x", Framing::Length).1["code"], invalid);
    assert_eq!(made("f"), (422, invalid.clone()));
    assert_eq!((made("d/e").0, made("d/e").0), (200, 200));
    assert_eq!(project.put("d", b"x", Framing::Length).1["code"], invalid);
    assert_eq!(project.api.get(&project.file("d")).status, 404);
    assert_eq!(project.api.delete(&project.file("nope")).status, 404);
}

#[test]
fn what_a_browser_would_run_is_never_shown_in_place() {
    let server = server();
    let project = Project::make(&server, "Pages");
    let import = format!("{}/import", project.path);
    project.api.send("POST", &import, &[], include_bytes!("../../../../tests/field-cases/C076-xss.tar.gz")).ok();
    let types = [
        (".html", "text/html"),
        (".svg", "image/svg+xml"),
        (".txt", "text/plain"),
        ("noext", "application/octet-stream"),
    ];
    let tree = project.tree();
    assert_eq!(tree.len(), 7, "{tree:?}");
    for path in tree.keys() {
        for (method, range) in [("GET", "bytes=1-2"), ("GET", ""), ("HEAD", "")] {
            let answer =
                project.api.open(method, &project.file(&encoded(path)), &[("Range", range)], b"", Framing::Length);
            // The body is left unread: what a browser goes by is in the head.
            let headers: BTreeMap<String, String> = answer.unwrap().headers.into_iter().collect();
            let header = |name: &str| headers.get(name).map_or("", String::as_str);
            assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
            assert!(header("content-security-policy").starts_with("sandbox"), "{path}");
            if let Some((_, expected)) = types.iter().find(|(ending, _)| path.ends_with(ending)) {
                assert_eq!(header("content-type").split(';').next(), Some(*expected), "{path}");
            }
        }
    }
}

#[test]
fn bodies_pass_through_without_filling_memory() {
    let server = TestServer::start(&[("limits.file", "256MiB")]);
    let project = Project::make(&server, "Large");
    let body: Vec<u8> = (0..100_u32 << 18).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let before = server.peak_memory();
    assert_eq!(project.put("large", &body, Framing::Chunked).0, 200);
    assert!(project.api.get(&project.file("large")).body == body);
    let part = project.api.send("GET", &project.file("large"), &[("Range", "bytes=80000000-80000999")], b"");
    assert!(part.status == 206 && part.body == body[80_000_000..80_001_000]);
    let tag = part.header("etag").unwrap();
    let known =
        project.api.open("GET", &project.file("large"), &[("If-None-Match", tag)], b"", Framing::Length).unwrap();
    let framed = |(name, _): &(String, String)| matches!(name.as_str(), "content-length" | "transfer-encoding");
    assert!(known.status == 304 && !known.headers.iter().any(framed), "{:?}", known.headers);
    let grown = server.peak_memory() - before;
    assert!(grown < 40 << 20, "{grown} bytes more for a body of {}", body.len());
}

fn done(ran: &Ran) -> Value {
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn the_client_writes_only_over_what_it_has_seen() {
    let server = server();
    let here = tempfile::tempdir().unwrap();
    let (script, copy) = (here.path().join("run.sh"), here.path().join("copy.sh"));
    let (script_name, copy_name) = (script.to_str().unwrap(), copy.to_str().unwrap());
    std::fs::write(&script, "echo one").unwrap();
    assert_eq!(server.ran(&["project", "create", "demo"]).status, 0);
    let client = |arguments: &[&str]| server.ran(&[&["--json", "project"], arguments].concat());

    let put = done(&client(&["put", "demo", script_name, "bin/run.sh", "--new"]));
    assert_eq!((&put["path"], &put["bytes"], &put["executable"]), (&json!("bin/run.sh"), &json!(8), &json!(false)));
    let again = client(&["put", "demo", script_name, "bin/run.sh", "--new"]);
    assert!(again.status == 1 && again.stderr.contains("stead_precondition_failed"), "{}", again.stderr);
    let changed = done(&client(&["chmod", "demo", "+x", "bin/run.sh"]));
    assert_eq!((&changed["executable"], &changed["etag"]), (&json!(true), &put["etag"]));
    let seen = done(&client(&["get", "demo", "bin/run.sh", copy_name]));
    assert_eq!(seen, changed);
    assert_ne!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o100, 0, "the bit comes along");

    std::fs::write(&script, "echo two").unwrap();
    let tag = seen["etag"].as_str().unwrap();
    let written = done(&client(&["put", "demo", script_name, "bin/run.sh", "--if-match", tag]));
    assert_eq!(written["executable"], true, "what is written keeps its bit");
    let mut stale = server.command(&["project", "put", "demo", copy_name, "bin/run.sh", "--if-match", tag]);
    let stale = ran(&mut stale);
    assert!(
        stale.status == 1 && stale.stderr.contains("hint: `stead --json project get demo bin/run.sh"),
        "{}",
        stale.stderr
    );
    assert_eq!(client(&["rm", "demo", "bin/run.sh", "--if-match", tag]).status, 1);
    assert_eq!(server.ran(&["project", "get", "demo", "bin/run.sh"]).stdout, "echo two");

    assert_eq!(server.ran(&["project", "put", "demo", script_name, "other.sh"]).status, 0);
    let beneath = done(&client(&["files", "demo", "--under", "bin"]));
    assert_eq!(beneath["entries"].as_array().unwrap().len(), 1);
    let shown = server.ran(&["project", "files", "demo"]).stdout;
    let line = shown.lines().find(|line| line.ends_with(" bin/run.sh")).unwrap();
    assert!(line.starts_with("x "), "{shown}");
    assert_eq!(done(&client(&["chmod", "demo", "-x", "bin/run.sh"]))["executable"], false);
    assert_eq!(client(&["files", "demo", "--under", "nothing"]).status, 1);
    assert_eq!(client(&["rm", "demo", "bin/run.sh", "--if-match", written["etag"].as_str().unwrap()]).status, 0);
}

#[test]
fn a_hundred_thousand_entries_are_listed_in_pages_and_whole() {
    let server = server();
    let project = Project::make(&server, "Large");
    let mut tar = tar::Builder::new(Vec::new());
    for directory in 0..100 {
        for file in 0..990 {
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            header.set_mode(0o644);
            header.set_cksum();
            tar.append_data(&mut header, format!("d{directory:02}/f{file:03}"), &b""[..]).unwrap();
        }
    }
    let import = format!("{}/import", project.path);
    let answer = project.api.send("POST", &import, &[], &tar.into_inner().unwrap()).ok();
    assert_eq!((&answer["written"], &answer["skipped"]), (&json!(99_000), &json!(0)));
    let listing = |query: &str| project.api.get(&format!("{}/files{query}", project.path)).ok();
    let whole = listing("");
    let entries = whole["entries"].as_array().unwrap();
    assert_eq!((entries.len(), &whole["count"], &whole["bytes"]), (99_100, &json!(99_000), &json!(0)));
    let mut paged: Vec<Value> = Vec::new();
    let mut after = String::new();
    loop {
        let page = listing(&format!("?limit=10000{after}"));
        assert_eq!((&page["count"], &page["bytes"]), (&json!(99_000), &json!(0)));
        paged.extend(page["entries"].as_array().unwrap().iter().cloned());
        let Some(next) = page["stead_after"].as_str() else { break };
        after = format!("&after={}", next.replace('/', "%2F"));
    }
    assert_eq!(&paged, entries, "the pages together are the whole");
    let under = listing("?under=d42&limit=10");
    assert_eq!(
        (under["entries"][0]["path"].as_str(), under["entries"].as_array().unwrap().len()),
        (Some("d42/f000"), 10)
    );
}
