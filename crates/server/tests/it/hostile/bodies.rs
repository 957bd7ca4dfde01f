//! Bodies: JSON that is none or means harm, and the wrong thing in every field that the document knows.

use serde_json::{Value, json};

use super::is_well;
use crate::api::{Answer, Api};
use crate::documented::DOCUMENT;
use crate::program::needs_root;
use crate::server::TestServer;

/// Routes that take JSON: method, path with names that nothing has, schema.
fn routes() -> Vec<(String, String, Value)> {
    let mut found = Vec::new();
    for (path, item) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            if schema.is_object() {
                found.push((method.to_ascii_uppercase(), path.replace(['{', '}'], ""), resolved(schema)));
            }
        }
    }
    assert!(found.len() > 8, "{} routes take JSON", found.len());
    found
}

fn resolved(schema: &Value) -> Value {
    match schema["$ref"].as_str() {
        Some(reference) => DOCUMENT.pointer(reference.trim_start_matches('#')).unwrap().clone(),
        None => schema.clone(),
    }
}

/// Paths of every field of a schema.
fn fields(schema: &Value, above: &[String], found: &mut Vec<Vec<String>>) {
    let schema = resolved(schema);
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = [above, std::slice::from_ref(name)].concat();
        found.push(path.clone());
        fields(inner, &path, found);
    }
    for inner in ["anyOf", "oneOf"].iter().flat_map(|word| schema[*word].as_array().into_iter().flatten()) {
        fields(inner, above, found);
    }
}

/// A body with `value`, which may be no JSON, in a field of it.
fn body_with(base: &Value, path: &[String], value: &str) -> String {
    let mut body = base.clone();
    let mut place = &mut body;
    for name in path {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name.as_str()];
    }
    *place = json!("THE VALUE");
    body.to_string().replace("\"THE VALUE\"", value)
}

fn send(api: &Api, method: &str, path: &str, body: &[u8]) -> Answer {
    api.send(method, path, &[("Content-Type", "application/json")], body)
}

/// A task that names no harness that there is, so that none is started; what else there is in a body is looked at before.
fn base_of(path: &str) -> Value {
    match path {
        "/v1/responses" => json!({"input": "true", "metadata": {"harness_id": "chrn_none"}}),
        "/v1/harnesses" => json!({"base": "shell", "environment": "henv_none"}),
        "/stead/v1/keys" => json!({"name": "some", "verbs": ["read"], "workspace": "none"}),
        path if path.ends_with("/import") => json!({"git": {"url": "https://host.example/x.git"}}),
        path if path.ends_with("/directories") => json!({"path": "d"}),
        path if path.contains("/files/") => json!({"executable": true}),
        _ => json!({"name": ""}),
    }
}

#[test]
fn what_is_no_json_or_means_harm_is_refused_on_every_route() {
    needs_root!();
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    let deep = |open: &str, close: &str| format!("{{\"input\":{}{}}}", open.repeat(10_000), close.repeat(10_000));
    let many = (0..250_000).fold(String::new(), |text, number| text + "\"" + &number.to_string() + "\":0,");
    let bodies: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"\x00".to_vec(),
        b"\xff\xfe{\x00}\x00".to_vec(),
        b"\xef\xbb\xbf{}".to_vec(),
        b"nonsense".to_vec(),
        b"{".to_vec(),
        b"[]".to_vec(),
        b"null".to_vec(),
        b"\"text\"".to_vec(),
        b"{} {}".to_vec(),
        b"{\"name\":\"\xff\"}".to_vec(),
        b"{\"input\":\"\xc3\x28\",\"name\":\"\xc3\x28\",\"path\":\"\xc3\x28\"}".to_vec(),
        br#"{"input":"\ud800","name":"\ud800","path":"\udfff","git":{"url":"\ud800"}}"#.to_vec(),
        br#"{"input":1e999,"name":1e999,"executable":1e999,"path":1e999,"git":1e999}"#.to_vec(),
        format!(r#"{{"timeout_seconds":{0},"name":{0},"executable":{0},"path":{0},"git":{0}}}"#, "9".repeat(400))
            .into_bytes(),
        br#"{"input":"a","input":"b","name":"a","name":"b","path":"a","path":"b","executable":true,"executable":1,"git":1}"#
            .to_vec(),
        deep("[", "]").into_bytes(),
        deep("{\"a\":", "}").into_bytes(),
        deep("[", "").into_bytes(),
        format!("{{\"input\":[{}0]}}", "0,".repeat(400_000)).into_bytes(),
        format!("{{{}\"z\":0}}", many).into_bytes(),
    ];
    let mut wrong = Vec::new();
    for (method, path, _) in routes() {
        for body in &bodies {
            let answer = send(&api, &method, &path, body);
            if !(400..500).contains(&answer.status) {
                let shown: String = String::from_utf8_lossy(&body[..body.len().min(80)]).escape_debug().collect();
                wrong.push(format!("{method} {path} {shown}: {} {}", answer.status, answer.text()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    is_well(&server);
}

#[test]
fn a_name_that_an_object_has_twice_is_refused_wherever_it_is() {
    needs_root!();
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    let task = |metadata: &str| format!(r#"{{"input":"true","metadata":{{"harness_id":"{harness}",{metadata}}}}}"#);
    for (path, body, place) in [
        ("/v1/responses", task(r#""stead_network":"disabled","stead_network":"enabled""#), "metadata.stead_network"),
        ("/v1/responses", task(r#""harness_id":"chrn_none""#), "metadata.harness_id"),
        ("/v1/environments", r#"{"name":"p","packages":{"pip":["a"],"npm":[],"pip":[]}}"#.to_owned(), "packages.pip"),
        ("/stead/v1/workspaces", r#"{"name":"a","name":"b"}"#.to_owned(), "name"),
    ] {
        let answer = send(&api, "POST", path, body.as_bytes());
        let error = answer.json();
        assert_eq!((answer.status, error["error"]["param"].as_str()), (400, Some(place)), "{body}: {error}");
    }
    is_well(&server);
}

#[test]
fn the_wrong_thing_in_any_field_is_no_fault_of_the_server() {
    needs_root!();
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    let long = format!("\"{}\"", "x".repeat(70_000));
    let values = [
        "null",
        "true",
        "0",
        "-1",
        "1.5",
        "1e400",
        "99999999999999999999",
        "\"\"",
        "\"\\u0000\"",
        "\"\\ud83d\"",
        "\"..\\/..\\/etc\\/passwd\"",
        "\"a\\nb\"",
        "[]",
        "{}",
        "[[]]",
        "[null]",
        "[\"\",0]",
        "{\"\":null}",
        "[{}]",
        &long,
    ];
    let (mut asked, mut wrong) = (0, Vec::new());
    for (method, path, schema) in routes() {
        let mut all = Vec::new();
        fields(&schema, &[], &mut all);
        assert!(!all.is_empty(), "{method} {path} has no fields");
        let base = base_of(&path);
        for field in all {
            for value in values {
                let body = body_with(&base, &field, value);
                let answer = send(&api, &method, &path, body.as_bytes());
                asked += 1;
                if answer.status >= 500 {
                    let shown = &body[..body.len().min(200)];
                    wrong.push(format!("{method} {path} {shown}: {} {}", answer.status, answer.text()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(asked > 500, "{asked} bodies were sent");
    is_well(&server);
    api.delete_sessions();
}
