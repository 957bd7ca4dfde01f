//! Files of a source as HTTP has them: ranges, conditions, the executable bit alone, and trees of any size.

use axum::body::Body;
use http::Method;
use serde_json::{Value, json};
use stead_domain::changes::Changes;
use stead_domain::source::{SourceEdit, TreeSize};
use stead_face_uhp::wire::ids;
use stead_testkit::samples::{source_directory, source_file};

use crate::client::{Answer, Server};
use crate::schema::conforms;

async fn call(server: &Server, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let request =
        headers.iter().fold(server.request(method, path), |request, (name, value)| request.header(*name, *value));
    server.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

#[tokio::test]
async fn reads_are_partial_conditional_and_silent() {
    let server = Server::start().await;
    let file = format!("/v1/environments/{}/files/a.txt", server.environment("Demo").await);
    let text = "0123456789".repeat(99);
    let written = server.call(Method::PUT, &file, text.clone()).await;
    let tag = written.header("etag").to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() == 66, "{tag}");
    let get = async |headers: &[(&str, &str)]| call(&server, Method::GET, &file, headers, "").await;

    let whole = get(&[]).await;
    assert_eq!(
        (whole.status.as_u16(), whole.text().as_str(), whole.header("etag")),
        (200, text.as_str(), tag.as_str())
    );
    assert_eq!((whole.header("accept-ranges"), whole.header("content-length")), ("bytes", "990"));
    let modified = whole.header("last-modified").to_owned();

    for (range, expected, place) in [
        ("bytes=3-5", &text[3..6], "bytes 3-5/990"),
        ("bytes=980-", &text[980..], "bytes 980-989/990"),
        ("bytes=-2", &text[988..], "bytes 988-989/990"),
        ("bytes=0-5000", &text[..], "bytes 0-989/990"),
    ] {
        let part = get(&[("range", range), ("if-range", &tag)]).await;
        assert_eq!((part.status.as_u16(), part.text().as_str()), (206, expected), "{range}");
        assert_eq!((part.header("content-range"), part.header("etag")), (place, tag.as_str()));
        assert_eq!(part.header("content-length"), expected.len().to_string());
        assert_eq!(part.header("x-content-type-options"), "nosniff");
    }
    let beyond = get(&[("range", "bytes=990-")]).await;
    beyond.refused(416, "stead_range_unsatisfiable");
    assert_eq!(beyond.header("content-range"), "bytes */990");
    for headers in [[("range", "bytes=0-1,4-5"), ("if-range", &tag)], [("range", "bytes=0-1"), ("if-range", "\"old\"")]]
    {
        assert_eq!(get(&headers).await.status.as_u16(), 200, "{headers:?}");
    }

    for (name, value) in [("if-none-match", tag.as_str()), ("if-none-match", "*"), ("if-modified-since", &modified)] {
        let known = get(&[(name, value)]).await;
        assert_eq!((known.status.as_u16(), known.bytes.len(), known.header("etag")), (304, 0, tag.as_str()), "{name}");
        assert_eq!(known.header("content-length"), "");
    }
    assert_eq!(get(&[("if-none-match", "\"other\"")]).await.status.as_u16(), 200);
    get(&[("if-match", "\"other\"")]).await.refused(412, "stead_precondition_failed");

    let head = call(&server, Method::HEAD, &file, &[("range", "bytes=0-1")], "").await;
    assert_eq!((head.status.as_u16(), head.bytes.len(), head.header("content-length")), (200, 0, "990"));
    assert_eq!((head.header("etag"), head.header("content-type")), (tag.as_str(), "text/plain; charset=utf-8"));
}

#[tokio::test]
async fn a_body_is_the_whole_file_as_it_is_to_be_kept() {
    let server = Server::start().await;
    let file = format!("/v1/environments/{}/files/a.txt", server.environment("Demo").await);
    let put = async |headers: &[(&str, &str)]| call(&server, Method::PUT, &file, headers, "x").await;
    let part = put(&[("content-range", "bytes 0-0/5")]).await;
    part.refused(400, "invalid_input");
    assert!(part.text().contains("Content-Range"), "{}", part.text());
    for coding in ["gzip", "identity, br"] {
        let coded = put(&[("content-encoding", coding)]).await;
        coded.refused(415, "stead_content_encoding_unsupported");
        assert!(coded.text().contains(coding), "{}", coded.text());
    }
    assert_eq!(call(&server, Method::GET, &file, &[], "").await.status.as_u16(), 404, "nothing was written");
    assert_eq!(put(&[("content-encoding", "Identity")]).await.status.as_u16(), 200);
}

#[tokio::test]
async fn writes_happen_only_to_what_the_caller_has_seen() {
    let server = Server::start().await;
    let files = format!("/v1/environments/{}/files", server.environment("Demo").await);
    let (file, directory) = (format!("{files}/d/a.txt"), format!("{files}/d"));
    let put = async |headers: &[(&str, &str)], body: &str| call(&server, Method::PUT, &file, headers, body).await;
    let refused = |answer: Answer| answer.refused(412, "stead_precondition_failed");

    refused(put(&[("if-match", "*")], "x").await);
    let first = put(&[("if-none-match", "*")], "one").await;
    first.good();
    refused(put(&[("if-none-match", "*")], "two").await);
    let tag = first.header("etag").to_owned();
    refused(put(&[("if-match", &format!("W/{tag}"))], "two").await);
    put(&[("if-match", "unquoted")], "two").await.refused(400, "invalid_input");
    let second = put(&[("if-match", &format!("\"else\", {tag}"))], "two").await;
    second.good();
    refused(put(&[("if-match", &tag)], "three").await);
    assert_eq!(server.get(&file).await.text(), "two");

    // Dates are conditions, too: of every write, and of nothing that is not there.
    let (past, future) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sat, 06 Nov 2094 08:49:37 GMT");
    let bit = json!({"executable": false}).to_string();
    for (method, body) in [(Method::PUT, "three"), (Method::PATCH, bit.as_str()), (Method::DELETE, "")] {
        refused(call(&server, method, &file, &[("if-unmodified-since", past)], body).await);
    }
    refused(call(&server, Method::PUT, &format!("{files}/none"), &[("if-unmodified-since", future)], "x").await);
    put(&[("if-unmodified-since", "yesterday")], "three").await.refused(400, "invalid_input");
    call(&server, Method::PATCH, &file, &[("if-unmodified-since", future)], &bit).await.good();
    assert_eq!(server.get(&file).await.text(), "two");

    // Of writers that have seen the same, one is let through.
    let seen = second.header("etag").to_owned();
    let racing = (0..8).map(|number| {
        let (server, file, seen) = (&server, &file, &seen);
        async move { call(server, Method::PUT, file, &[("if-match", seen)], &format!("racer {number}")).await }
    });
    let won: Vec<Answer> = futures_util::future::join_all(racing)
        .await
        .into_iter()
        .filter(|answer| answer.status.as_u16() == 200)
        .collect();
    assert_eq!(won.len(), 1);
    assert_eq!(server.get(&file).await.header("etag"), won[0].header("etag"));

    let delete = async |path: &str, value: &str| call(&server, Method::DELETE, path, &[("if-match", value)], "").await;
    refused(delete(&file, &seen).await);
    refused(delete(&directory, won[0].header("etag")).await);
    refused(delete(&format!("{files}/none"), "*").await);
    delete(&file, won[0].header("etag")).await.good();
    delete(&directory, "*").await.good();
    assert_eq!(server.get(&files).await.good()["entries"], json!([]));
}

#[tokio::test]
async fn the_executable_bit_changes_without_the_bytes() {
    let server = Server::start().await;
    let files = format!("/v1/environments/{}/files", server.environment("Demo").await);
    let file = format!("{files}/run.sh");
    let tag = server.call(Method::PUT, &file, "echo").await.header("etag").to_owned();
    let patch = async |path: &str, headers: &[(&str, &str)], body: Value| {
        call(&server, Method::PATCH, path, headers, &body.to_string()).await
    };
    for executable in [true, true, false] {
        let changed = patch(&file, &[("if-match", &tag)], json!({"executable": executable})).await;
        assert_eq!(changed.good(), json!({"path": "run.sh", "bytes": 4, "stead_executable": executable}));
        let read = server.get(&file).await;
        assert_eq!((read.text().as_str(), read.header("etag")), ("echo", tag.as_str()));
        assert_eq!(read.header("x-stead-executable"), if executable { "1" } else { "0" });
        let listed = server.get(&files).await.good()["entries"][0].clone();
        assert_eq!(listed.get("stead_executable"), executable.then_some(&json!(true)), "{listed}");
    }
    patch(&file, &[("if-match", "\"else\"")], json!({"executable": true}))
        .await
        .refused(412, "stead_precondition_failed");
    assert_eq!(patch(&file, &[], json!({})).await.refused(400, "invalid_input")["param"], "executable");
    patch(&format!("{files}/none"), &[], json!({"executable": true})).await.refused(404, "file_not_found");
    server.post(&files.replace("files", "directories"), json!({"path": "d"})).await.good();
    patch(&format!("{files}/d"), &[], json!({"executable": true})).await.refused(422, "environment_invalid");
}

#[tokio::test]
async fn large_trees_are_listed_whole_and_in_pages() {
    let server = Server::start().await;
    let id = server.environment("Large").await;
    let files = format!("/v1/environments/{id}/files");
    let mut entries = vec![source_directory("d"), source_directory("e"), source_file("d é?", 3)];
    entries.extend((0..4_500).map(|number| source_file(&format!("d/f{number:05}"), 1)));
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    let (caller, project) = (server.caller().await, ids::parse_environment(&id).unwrap());
    let mut row = server.store.project_fetch(caller.workspace_id, project).await.unwrap().unwrap();
    row.source = TreeSize::of(&entries);
    let edit = SourceEdit { written: entries.clone(), ..SourceEdit::default() };
    server.store.commit(Changes::new().update(row).source(project, edit)).await.unwrap();
    let expected: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
    let paths = |listed: &Value| -> Vec<String> {
        let entries = listed["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
    };

    let whole = conforms("EnvironmentFileList", &server.get(&files).await.good());
    assert_eq!((&whole["count"], &whole["bytes"], whole.get("stead_after")), (&json!(4501), &json!(4503), None));
    assert_eq!(paths(&whole), expected);
    let rest = server.get(&format!("{files}?after=d/f00001")).await.good();
    assert_eq!(paths(&rest), expected[expected.iter().position(|path| *path == "d/f00002").unwrap()..]);

    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{files}?limit=1500&after={after}")).await.good();
        assert_eq!(page["count"], 4501);
        found.extend(paths(&page));
        match page.get("stead_after") {
            Some(next) => after = next.as_str().unwrap().replace(' ', "+").replace('é', "%C3%A9").replace('?', "%3F"),
            None => break,
        }
    }
    assert_eq!(found, expected);

    let beneath = server.get(&format!("{files}?under=d/&limit=2")).await.good();
    assert_eq!(
        (paths(&beneath), &beneath["stead_after"]),
        (vec!["d/f00000".to_owned(), "d/f00001".to_owned()], &json!("d/f00001"))
    );
    assert_eq!(server.get(&format!("{files}?under=e")).await.good()["entries"], json!([]));
    for missing in ["f", "d/f00000"] {
        server.get(&format!("{files}?under={missing}")).await.refused(404, "file_not_found");
    }
    for wrong in ["limit=0", "limit=10001", "limit=x", "after=../x", "under=/"] {
        server.get(&format!("{files}?{wrong}")).await.refused(400, "invalid_input");
    }
}
