//! What a turn left: listed, cited, downloaded one by one and as one zip, and gone with its session.

use std::io::{Cursor, Read};

use axum::body::Body;
use http::Method;
use serde_json::{Value, json};
use stead_domain::FileId;
use stead_domain::changes::Changes;
use stead_domain::file::Artifact;
use stead_face_uhp::wire::ids;
use stead_testkit::SeededIds;

use crate::client::Server;
use crate::schema::conforms;

/// A task that has failed, with these files put beside it.
async fn task_that_left(server: &Server, files: &[(&str, &[u8])]) -> Value {
    let harness = server.get("/v1/harnesses").await.good()["harnesses"][0]["id"].clone();
    let task = json!({"input": "x", "metadata": {"harness_id": harness}});
    let id = server.post("/v1/responses", task).await.good()["id"].as_str().unwrap().to_owned();
    let caller = server.caller().await;
    let turn = server.engine.turn_get(&caller, ids::parse_response(&id).unwrap()).await.unwrap().turn;
    let source = SeededIds::new(99);
    let mut changes = Changes::new();
    for (path, bytes) in files {
        let blob = server.blobs.put(caller.workspace_id, bytes.to_vec()).await.unwrap();
        changes = changes.fact(Artifact {
            id: FileId::new(&source),
            workspace_id: caller.workspace_id,
            session_id: turn.session_id,
            turn_id: turn.id,
            path: (*path).to_owned(),
            bytes: blob.bytes,
            blob: blob.id,
            created_at: turn.created_at,
        });
    }
    server.blobs.sync().await.unwrap();
    server.store.commit(changes).await.unwrap();
    server.get(&format!("/v1/responses/{id}")).await.good()
}

#[tokio::test]
async fn files_are_cited_downloaded_packed_and_deleted_with_their_session() {
    let server = Server::start().await;
    let left: [(&str, &[u8]); 3] =
        [("out/é.csv", b"a,b\n"), ("page.html", b"<script>alert(1)</script>"), ("OUT/é.csv", b"\x00\xff")];
    let response = conforms("Response", &task_that_left(&server, &left).await);
    let session = response["metadata"]["session_id"].as_str().unwrap().to_owned();
    let cited = response["output"][0]["content"][0]["annotations"].as_array().unwrap().clone();
    let listed = server.get(&format!("/v1/sessions/{session}/files")).await.good()["files"].clone();
    assert_eq!((cited.len(), listed.as_array().unwrap().len()), (3, 3));
    for ((citation, file), (path, bytes)) in cited.iter().zip(listed.as_array().unwrap()).zip(left) {
        conforms("File", file);
        assert_eq!((&citation["file_id"], &citation["filename"]), (&file["id"], &json!(path)));
        let url = citation["download_url"].as_str().unwrap();
        let answer = server.get(url).await;
        assert_eq!((answer.status.as_u16(), &answer.bytes[..]), (200, bytes));
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert!(answer.header("content-disposition").starts_with("attachment; filename="));
        assert_eq!(answer.header("content-length"), bytes.len().to_string());
        let conditional = |name: &str, value: &str| {
            server.send(server.request(Method::GET, url).header(name, value).body(Body::empty()).unwrap())
        };
        let known = conditional("if-none-match", answer.header("etag")).await;
        assert_eq!((known.status.as_u16(), known.bytes.len()), (304, 0));
        let tail = conditional("range", "bytes=-1").await;
        assert_eq!((tail.status.as_u16(), &tail.bytes[..]), (206, &bytes[bytes.len() - 1..]));
        let preview = server.get(&url.replace("/content", "/pdf")).await;
        preview.refused(501, "preview_unavailable");
    }
    let first = server.get(cited[0]["download_url"].as_str().unwrap()).await;
    assert_eq!(first.header("content-type"), "text/csv; charset=utf-8");
    assert!(first.header("content-disposition").ends_with("filename*=UTF-8''%C3%A9.csv"));

    let archive = server.get(&format!("/v1/sessions/{session}/files/archive")).await;
    assert_eq!(archive.header("content-type"), "application/zip");
    let mut zip = zip::ZipArchive::new(Cursor::new(archive.bytes)).unwrap();
    let mut packed = Vec::new();
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        packed.push((entry.name().to_owned(), bytes));
    }
    let expected = [
        ("OUT/é.csv".to_owned(), left[2].1.to_vec()),
        ("page.html".to_owned(), left[1].1.to_vec()),
        ("out/é (2).csv".to_owned(), left[0].1.to_vec()),
    ];
    assert_eq!(packed, expected);

    server.delete(&format!("/v1/sessions/{session}")).await.good();
    server.get(cited[0]["download_url"].as_str().unwrap()).await.refused(404, "file_not_found");
    server.get(&format!("/v1/sessions/{session}/files")).await.refused(404, "session_not_found");
}
