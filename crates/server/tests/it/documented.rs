//! The OpenAPI document, held against the tables of the faces and against everything that the server really answers: each answer
//! that a test reads is checked, whatever the test is about.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};
use stead_face_frame::{Document, Row};

use crate::api::{Answer, Api};
use crate::program::needs_root;
use crate::server::TestServer;

/// Every route of every face.
pub(crate) fn table() -> Vec<Row> {
    [stead_face_uhp::table(), stead_face_stead::table()].concat()
}

/// The document as the server serves it.
pub(crate) static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let parts = Document::new("Stead", env!("CARGO_PKG_VERSION"));
    parts.with(stead_face_uhp::document()).with(stead_face_stead::document()).write().unwrap()
});

/// Whether a path is one of a template's; what stands between braces is any segment, and a last one may be many.
fn fits(template: &str, path: &str, goes_on: bool) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    let same = |(wanted, found): (&&str, &&str)| wanted == found || (wanted.starts_with('{') && !found.is_empty());
    let length = template.len() == path.len() || (goes_on && template.len() < path.len());
    length && template.iter().zip(&path).all(same)
}

/// The operation that answers a request: literal segments go before names.
fn operation(method: &str, path: &str) -> Option<(String, &'static Value)> {
    let path = path.split('?').next().unwrap_or_default();
    let method = if method == "HEAD" { "get" } else { method };
    let templates = DOCUMENT["paths"].as_object().unwrap().iter();
    let fitting = templates.filter(|(template, _)| fits(template, path, template.ends_with("/files/{path}")));
    let (template, item) = fitting.min_by_key(|(template, _)| (template.matches('{').count(), template.len()))?;
    let operation = item.get(method.to_ascii_lowercase())?;
    Some((template.clone(), operation))
}

/// Validators by the name of what they check.
static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

fn validator(schema: &Value) -> Arc<Validator> {
    let mut whole = schema.clone();
    whole["components"] = json!({ "schemas": DOCUMENT["components"]["schemas"] });
    let mut all = VALIDATORS.lock().unwrap();
    let made = all.entry(schema.to_string()).or_insert_with(|| Arc::new(jsonschema::draft202012::new(&whole).unwrap()));
    Arc::clone(made)
}

/// Fails when an answer is none that the document has for the request.
#[track_caller]
pub(crate) fn check(method: &str, path: &str, answer: &Answer) {
    let Some((template, operation)) = operation(method, path) else { return };
    let what = format!("{method} {template} ({path}): {} {}", answer.status, answer.text());
    let Some(described) = operation["responses"].get(answer.status.to_string()) else {
        panic!("the document has no such status: {what}");
    };
    let described = match described["$ref"].as_str() {
        Some(reference) => DOCUMENT.pointer(reference.trim_start_matches('#')).unwrap(),
        None => described,
    };
    if method == "HEAD" || answer.body.is_empty() {
        return;
    }
    let media = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let contents = described["content"].as_object();
    let content = contents.and_then(|contents| contents.get(media).or_else(|| contents.get("*/*")));
    let Some(content) = content else {
        // An answer whose body is that of the good one, in part.
        assert!(answer.status == 206 || answer.status == 304, "the document has no {media} here: {what}");
        return;
    };
    // Bytes of a file may call themselves JSON, too.
    if media != "application/json" || content["schema"] == json!({}) {
        return;
    }
    let body = answer.json();
    let errors: Vec<String> = validator(&content["schema"])
        .iter_errors(&body)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "not as the document says: {errors:?}: {what}");
}

#[test]
fn the_document_has_every_route_and_no_other_and_is_served_without_a_key() {
    needs_root!();
    let server = TestServer::start(&[]);
    let anybody = Api::with_key(&server, "nothing");
    assert_eq!(anybody.get("/stead/v1/openapi.json").ok(), *DOCUMENT);
    assert_eq!(DOCUMENT["openapi"], "3.1.0");
    let mut described = BTreeSet::new();
    for (path, item) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let verbs: Vec<&str> =
                operation["x-stead-verbs"].as_array().unwrap().iter().map(|verb| verb.as_str().unwrap()).collect();
            assert_eq!(operation["security"] == json!([]), verbs.is_empty(), "{method} {path}");
            described.insert((method.to_ascii_uppercase(), path.clone(), verbs.join(" ")));
        }
    }
    let routed: BTreeSet<_> = table()
        .iter()
        .map(|Row { route, .. }| {
            let verbs: Vec<&str> = route.verbs.iter().map(|verb| verb.as_str()).collect();
            (route.method.to_string(), route.path.replace("{*", "{"), verbs.join(" "))
        })
        .collect();
    assert_eq!(described, routed);
    // What a route has not been named for does not exist, and what has been does.
    let admin = Api::of(&server);
    for (method, path, _) in &routed {
        let path = path.replace('{', "no").replace('}', "thing");
        let answer = admin.send(method, &path, &[("UHP-Version", "2026-09-28")], b"");
        let code = if answer.body.is_empty() { Value::Null } else { answer.json()["error"]["code"].clone() };
        assert!(code != "stead_unknown_route" && code != "route_not_found", "{method} {path}: {}", answer.text());
        assert_ne!(answer.status, 405, "{method} {path}");
    }
}

/// The document is kept in the repository, so that a change of the interface shows in review. `STEAD_WRITE_DOCUMENT=1` writes it.
#[test]
fn the_document_that_is_kept_is_the_one_that_is_served() {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let mut written = serde_json::to_string_pretty(&*DOCUMENT).unwrap();
    written.push('\n');
    if std::env::var_os("STEAD_WRITE_DOCUMENT").is_some() {
        std::fs::write(place, &written).unwrap();
    }
    let kept = std::fs::read_to_string(place).unwrap_or_default();
    assert!(kept == written, "docs/openapi.json is not what the server serves; STEAD_WRITE_DOCUMENT=1 writes it anew");
}

#[test]
fn an_answer_that_is_not_in_the_document_is_noticed() {
    let answer = |status, body: &str| Answer {
        status,
        headers: vec![("content-type".to_owned(), "application/json; charset=utf-8".to_owned())],
        body: body.as_bytes().to_vec(),
    };
    let wrong = |method: &'static str, path: &'static str, answer: Answer| {
        std::panic::catch_unwind(move || check(method, path, &answer)).is_err()
    };
    assert!(wrong("GET", "/v1/harnesses/x", answer(200, r#"{"id":3}"#)));
    assert!(wrong("GET", "/v1/harnesses/x", answer(418, "{}")));
    assert!(wrong("GET", "/v1/harnesses/x", answer(404, r#"{"error":{"type":"x"}}"#)));
    let refused = r#"{"error":{"type":"x","code":"y","message":"z","param":null,"detail":null}}"#;
    assert!(!wrong("GET", "/v1/harnesses/x?y=z", answer(404, refused)));
    assert!(!wrong("GET", "/v1/nothing", answer(404, "{}")));
}
